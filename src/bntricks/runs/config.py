"""Every knob of a run, typed and bounded, with the paper's values as defaults.

A `Config` holds what a run's result depends on and nothing else: where the data lies, where
results go and how progress is shown are no part of it. Its hash names the run.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import AfterValidator, Field, ValidationError, field_validator

from bntricks.errors import InvalidOptions, UserError
from bntricks.files import parse_json
from bntricks.options import Option, Options

REVISION = 1
"""Raised whenever the same configuration would train to different bits than before."""


Count = Annotated[int, Field(ge=1)]


def _device(name: str) -> str:
    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", name) is None:
        raise ValueError("give cpu, cuda, cuda:N or mps")
    return name


_PHI = Option(decides_phi=True)


class Config(Options):
    """What is trained, on what, and how."""

    method: Annotated[str, Option("subject", study_flag=False)] = "er-bnt"
    """The method, by its name in `bnt methods`."""
    hyper: Annotated[
        dict[str, float],
        Parameter(parse=False),
        Option("subject", "method", study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The method's own hyper-parameters; on the command line each has a flag of its own name."""
    stream: Annotated[str, Option("subject", study_flag=False, competes=False)] = "seq-cifar10"
    """The stream of tasks, by its name in `bnt streams`."""
    seed: Annotated[
        int, Field(ge=0, le=2**32 - 1), Option("subject", study_flag=False, competes=False)
    ] = 0
    """Decides initial weights, order, crops, and what the memory keeps and draws."""

    epochs: Count = 50
    """Passes over each task's training images."""
    batch: Annotated[int, Field(ge=2), _PHI] = 32
    """Images in a batch of the stream."""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    """Learning rate."""
    optimiser: str = "sgd"
    """How parameters move: `sgd`, plain gradient descent, `sgdm`, with momentum, `adam` or
    `adamw`."""
    sgd_momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    """`sgdm`: how much of one step goes into the next [default: 0.9]. The option `momentum` is
    BatchNorm's."""
    weight_decay: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)] = 0.0
    """w in w·θ, which is added to the gradient; `adamw` decays by it apart from the gradient. It
    comes on top of what the method has itself."""
    schedule: str = "constant"
    """How the learning rate changes while a task is learned: `constant`; `cosine`, down to nothing;
    `steps`, to a tenth after half of the task and again after three quarters; `one-cycle`, a
    warm-up and a decay."""
    clip: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest gradient norm: longer gradients are scaled down to it [default: no limit]."""
    even_batches: Annotated[bool, Parameter(negative=())] = False
    """Make all batches of an epoch about the same size. By default the last one gets the
    remainder, and a step on a handful of images can undo an epoch."""
    memory: Annotated[Annotated[int, Field(ge=1, le=10_000_000)] | None, Option(of="memory")] = None
    """Images the memory holds [default: the stream's: 500, 1000 or 2000 in the paper]."""
    memory_batch: Annotated[int, Field(ge=2), Option(of="memory", decides_phi=True)] = 32
    """Images in a batch drawn from the memory."""
    balance: Annotated[Literal["count", "ratio"], Option(of="method", decides_phi=True)] = "count"
    """How the balanced batch is made: `count` allows for new images already in the memory
    batch, `ratio` does not."""
    as_published: Annotated[bool, Parameter(negative=()), Option(of="method")] = False
    """Bring back mistakes of the code the paper built on that move numbers: iCaRL's corrupted
    exemplars, and inputs of GSS's scores and LwF's targets that were not normalised. With the norm
    `adab2n`, weights that do not sum to 1."""
    augment: Literal["standard", "none"] = "standard"
    """Random crop and flip, or neither."""

    correct: str = "none"
    """How the head's bias towards new classes is corrected when a task is over: `none`; `wa` aligns
    its weights for good; `wa-eval`, `bic`, `il2m` and `prior` only rescore, so they need no
    training of their own."""
    recalibrate: Annotated[str, _PHI] = "off"
    """When a task is over, set the running statistics: `off` leaves them; `memory` sets them to the
    moments of what is stored."""

    net: str = "resnet"
    """The network: `resnet` or `resnet18`, the paper's; `resnet32`, that of He et al. for CIFAR;
    `mlp`; or `package.module:build`, a function of yours that is called with the number of
    classes."""
    norm: Annotated[str, _PHI] = "bn"
    """What normalises it, by its name in `bnt norms`: `bn` is BatchNorm."""
    groups: Annotated[Count | None, Option(of="norm")] = None
    """Groups of channels in each layer, for norms that have them [default: half as many as there
    are channels, at most 32]."""
    momentum: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None, Option(of="norm", decides_phi=True, unset="0.1")
    ] = None
    """Weight of a new batch in the running statistics; 0 gives all batches the same weight
    [default: the norm's own, 0.1 for BatchNorm]."""
    kappa: Annotated[Annotated[float, Field(ge=0, le=1)] | None, Option(of="norm")] = None
    """AdaB²N: how soon running statistics forget, from 0, an average over all batches, to 1, a
    momentum of 0.1 [default: 0.4]."""
    lambda_norm: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Option(of="norm")
    ] = None
    """AdaB²N: weight of the distance between batch and running statistics in the loss [default:
    0.1]."""
    head: str = "linear"
    """The network's last layer: `linear`, or `cosine`, ten times the cosine between the features
    and a class's weights."""
    width: Annotated[Count, Option(of="network")] = 64
    """Channels of the first stage of a `resnet`, or of the hidden layers of an `mlp`."""
    blocks: Annotated[Count, Option(of="network")] = 2
    """Residual blocks in a stage of a `resnet`."""
    stages: Annotated[int, Field(ge=1, le=6), Option(of="network")] = 4
    """Stages of a `resnet`; each but the first halves the image and doubles the width."""

    image_size: Annotated[
        Annotated[int, Field(ge=8, le=512)] | None, Option(unset="the images' own")
    ] = None
    """Side to shrink images to (area mean) [default: their own; folder: 32]."""
    images_per_class: Annotated[Count | None, Option(unset="all")] = None
    """Use only the first N training images of each class [default: all]."""
    classes_per_task: Count | None = None
    """Classes in each task; the last may have fewer [default: the stream's; folder: 2]."""
    first: Annotated[Count | None, _PHI] = None
    """Classes in the first task, where later ones have as many as `increment` says."""
    increment: Annotated[Count | None, _PHI] = None
    """Classes in each task after the first; the last may have fewer."""
    tasks: Annotated[
        tuple[str, ...] | None,
        Parameter(negative=()),
        Option(decides_phi=True, study_flag=False, competes=False),
    ] = None
    """One list of classes a task, as 'cat,dog' or '["cat", "dog"]', by name or by number."""
    class_order: Annotated[str | None, Option(unset="the usual")] = None
    """The order in which classes come: a seed, such as 1993, or all of them in a list, as
    'dog,cat,owl', '["dog", "cat", "owl"]' or '1,0,2' [default: the stream's]."""
    blurry: Annotated[float, Field(ge=0, lt=1), _PHI] = 0.0
    """Share of each class's training images that come in other tasks than its own."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Folder streams: share of each class's images kept for testing."""
    validation: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, Option(competes=False)] = None
    """Test on this share of each class's training images, and train on the rest; the test images
    are left alone [default: test on the test images]."""

    device: Annotated[str, AfterValidator(_device), Option("computation", study_flag=False)] = "cpu"
    """Where to compute: cpu, cuda, cuda:N or mps."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Arithmetic of the passes: float32, bfloat16 in forward passes where it is safe (autocast),
    or, on CUDA, TF32, which rounds products of float32."""
    deterministic: Annotated[bool, Parameter(negative=()), Option("computation")] = False
    """Allow only kernels that add in a fixed order: on CUDA, the same bits every time, but slower.
    On the CPU this makes no difference."""
    compile: Annotated[bool, Parameter(negative=()), Option("computation")] = False
    """Let torch.compile make the network's passes: different last bits, and a minute or more of
    compiling. Meant for GPUs."""
    ranks: Annotated[
        Count, Parameter(parse=False), Option("computation", study_flag=False, competes=False)
    ] = 1
    """Processes this run is split over: as many as torchrun starts."""
    synchronised: Annotated[bool, Parameter(negative=())] = False
    """Under torchrun: normalise by the batch statistics of all ranks together, not each by its
    own."""
    threads: Annotated[int, Field(ge=1, le=1024), Option("computation")] = 1
    """CPU threads. Different counts give different bits; many runs beat many threads."""
    imports: Annotated[
        dict[str, str],
        Parameter(parse=False),
        Option("subject", "method", study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The user's own files that the run uses, each with the SHA-256 of its content. Nobody need
    give them: they follow from what is imported."""

    @field_validator("class_order", mode="before")
    @classmethod
    def _order_as_text(cls, order: Any) -> Any:
        """From Python, a number or a list; here the order is always text."""
        if isinstance(order, list | tuple):
            return json.dumps([str(name) for name in order], ensure_ascii=False)
        return str(order) if isinstance(order, int) else order

    @field_validator("tasks", mode="before")
    @classmethod
    def _as_text(cls, tasks: Any) -> Any:
        """The command line decodes JSON lists by itself; here a task is always text."""
        if not isinstance(tasks, list | tuple):
            return tasks
        return tuple(t if isinstance(t, str) else json.dumps(t, ensure_ascii=False) for t in tasks)

    @property
    def task_lists(self) -> list[list[str]] | None:
        """`tasks` as lists of names."""
        return None if self.tasks is None else [class_names(text, "tasks") for text in self.tasks]

    @property
    def order_of_classes(self) -> int | list[str] | None:
        """`class_order` as a seed or as a list of classes."""
        if self.class_order is None:
            return None
        is_seed = self.class_order.isdecimal()
        return int(self.class_order) if is_seed else class_names(self.class_order, "class_order")

    def changed(self) -> set[str]:
        """The options whose values are not the defaults."""
        return set(self.model_dump(exclude_defaults=True))

    def identity(self, fingerprint: str) -> str:
        """The run's name: a hash of all of this and of the data's content.

        Values at their default are left out, so that a knob added later, which by default changes
        nothing, does not rename old runs. A default that changes must raise REVISION.
        """
        chosen = self.model_dump(mode="json", exclude_defaults=True)
        named = {"method": self.method, "stream": self.stream, "seed": self.seed}
        whole = {"revision": REVISION, "data": fingerprint, **chosen, **named}
        text = json.dumps(whole, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse(values: dict[str, Any]) -> Config:
    """A Config from plain values; every mistake is one line that says what is allowed."""
    try:
        return Config(**values)
    except ValidationError as error:
        raise InvalidOptions.of(error) from None


def class_names(text: str, option: str) -> list[str]:
    """The names in 'cat,dog' or '["cat", "dog"]', which is the value of this option."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        names = parse_json(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(
            "neither 'cat,dog' nor a JSON list of class names", option=option, value=text
        )
    return names
