"""Options of training and of a method's recipe. Nothing here needs torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bntricks.options import Option, Options

READINGS = ("wa-eval", "bic", "il2m", "prior")
"""Corrections that only rescore: they are read off a network that is trained without them. A user's
own is not, because its file is part of the run's name."""


class TrainingOptions(Options):
    """How θ and φ move, and what is replayed."""

    shown_in: ClassVar[str] = "Training"

    epochs: Annotated[int, Field(ge=1)] = 50
    """Passes over each task's training images."""
    batch: Annotated[int, Field(ge=2), Option(decides_phi=True)] = 32
    """Images in a batch of the stream."""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    """Learning rate."""
    optimiser: str = "sgd"
    """How parameters move: `sgd`, plain gradient descent, `sgdm`, with momentum, `adam` or
    `adamw`."""
    sgd_momentum: Annotated[float | None, Field(ge=0, lt=1), Option(rare=True)] = None
    """`sgdm`: how much of one step goes into the next [default: 0.9]. The option `momentum` is
    BatchNorm's."""
    weight_decay: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False), Option(rare=True)] = (
        0.0
    )
    """w in w·θ, which is added to the gradient; `adamw` decays by it apart from the gradient. It
    comes on top of what the method has itself."""
    schedule: Annotated[str, Option(rare=True)] = "constant"
    """How the learning rate changes while a task is learned: `constant`; `cosine`, down to nothing;
    `steps`, to a tenth after half of the task and again after three quarters; `one-cycle`, a
    warm-up and a decay."""
    clip: Annotated[float | None, Field(gt=0, allow_inf_nan=False), Option(rare=True)] = None
    """Largest gradient norm: longer gradients are scaled down to it [default: no limit]."""
    even_batches: Annotated[bool, Option(rare=True)] = False
    """Make all batches of an epoch about the same size. By default the last one gets the
    remainder, and a step on a handful of images can undo an epoch."""
    memory: Annotated[int | None, Field(ge=1, le=10_000_000), Option(of="memory")] = None
    """Images the memory holds [default: the stream's: 500, 1000 or 2000 in the paper]."""
    memory_per_class: Annotated[
        int | None, Field(ge=1, le=100_000), Option(of="memory", rare=True)
    ] = None
    """Images of each class that the memory holds, however many classes have come; it takes the
    place of `memory`."""
    memory_batch: Annotated[int, Field(ge=1), Option(of="memory", decides_phi=True)] = 32
    """Images in a batch drawn from the memory."""
    balance: Annotated[
        Literal["count", "ratio"], Option(of="method", decides_phi=True, rare=True)
    ] = "count"
    """How the balanced batch is made: `count` allows for new images already in the memory
    batch, `ratio` does not."""
    as_published: Annotated[bool, Option(of="method", rare=True)] = False
    """Bring back mistakes of the code the paper built on that move numbers: iCaRL's corrupted
    exemplars, and inputs of GSS's scores and LwF's targets that were not normalised. With the norm
    `adab2n`, weights that do not sum to 1."""
    precision: Annotated[Literal["float32", "tf32", "bf16"], Option(rare=True)] = "float32"
    """Arithmetic of the passes: float32, bfloat16 in forward passes where it is safe (autocast),
    or, on CUDA, TF32, which rounds products of float32."""


class RecipeOptions(Options):
    """What a recipe does when a task is over, in addition to the method's own."""

    shown_in: ClassVar[str] = "Training"

    correct: str = "none"
    """How the head's bias towards new classes is corrected when a task is over: `none`; `wa` aligns
    its weights for good; `wa-eval`, `bic`, `il2m` and `prior` only rescore, so they need no
    training of their own."""
    recalibrate: Annotated[str, Option(decides_phi=True, rare=True)] = "off"
    """When a task is over, set the running statistics: `off` leaves them; `memory` sets them to the
    moments of what is stored."""
