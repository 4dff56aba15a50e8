"""Options of how a model learns and how a new one is made, with bounds, defaults and help, for
`Model.create`, `Model.adopt` and the flags of `bnt learn`. Nothing here needs torch."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bntricks.options import Option, Options

IMAGE_SIZE = 32
"""Of a fresh model, by default."""
KEEP = 3
"""Earlier models that are kept, by default."""

Batch = Annotated[int, Field(ge=2, le=1_000_000)]
Samples = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=100_000_000)]
Width = Annotated[int, Field(ge=1, le=1024)]
Blocks = Annotated[int, Field(ge=1, le=64)]
Stages = Annotated[int, Field(ge=1, le=6)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

IN_PYTHON = Option(flag=False)
"""No flag of its own."""
RARE = Option(rare=True)


class Protocol(Options):
    """Options of how a model learns its tasks. The defaults suit practice, not the paper's
    protocol: `docs/teaching.md` has the experiment."""

    shown_in: ClassVar[str] = "New model"

    method: str = "er-even-bnt"
    """How it learns and rehearses, by its name in `bnt methods`."""
    hyper: Annotated[dict[str, Any], IN_PYTHON] = Field(default_factory=dict)
    """The method's own hyper-parameters, which it checks itself."""
    memory: Samples = 500
    """Images it keeps to rehearse."""
    batch: Annotated[Batch, RARE] = 64
    """Images in a batch of new ones, and of rehearsed ones."""
    memory_batch: Annotated[Samples, IN_PYTHON] = 64
    """Samples in a batch of rehearsed ones."""
    even_batches: Annotated[bool, IN_PYTHON] = True
    """The last batch of an epoch is not a small one."""
    optimiser: Annotated[str, RARE] = "adamw"
    """How parameters move, `adamw` or `sgd`."""
    lr: Annotated[Positive | None, IN_PYTHON] = None
    """Learning rate, the highest one of its schedule [default: the optimiser's]."""
    schedule: Annotated[str, RARE] = "one-cycle"
    """How the learning rate changes while a folder is learned, `one-cycle` or
    `constant`."""
    tasks: Annotated[Count | None, RARE] = None
    """How many folders it will learn; GEM and A-GEM need to know."""
    seed: Annotated[int, Field(ge=0, lt=2**32), RARE] = 0
    """Decides initial weights, order, crops and what is kept."""


class NewModel(Protocol):
    """Options of a new model: how it learns, and its ResNet."""

    image_size: Annotated[int, Field(ge=8, le=512)] | None = None
    """Side of the squares that images are resized to [default: 32; for a network of your
    own what --preprocessing says, or 224]."""
    width: Width = 16
    """Channels of the ResNet's first stage."""
    blocks: Annotated[Blocks, RARE] = 1
    """Residual blocks in a stage."""
    stages: Annotated[Stages, RARE] = 4
    """Stages of the network."""
    augment: Annotated[Literal["standard", "none"], RARE] = "standard"
    """Random crop and flip, or neither."""
