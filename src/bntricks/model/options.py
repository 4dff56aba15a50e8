"""Options of how a model learns and how a new one is made, with bounds, defaults and help, for
`Model.create`, `Model.adopt` and the flags of `bnt learn`. Nothing here needs torch."""

from typing import Annotated, Any, Literal

from pydantic import Field

from bntricks.options import Option, Options

IMAGE_SIZE = 32
"""Of a fresh model, by default."""

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


class Protocol(Options):
    """Options of how a model learns its tasks. The defaults suit practice, not the paper's
    protocol: `docs/teaching.md` has the experiment."""

    method: str = "er-even-bnt"
    """New model: how it learns and rehearses, by its name in `bnt methods`."""
    hyper: Annotated[dict[str, Any], IN_PYTHON] = Field(default_factory=dict)
    """The method's own hyper-parameters, which it checks itself."""
    memory: Samples = 500
    """New model: images it keeps to rehearse."""
    batch: Batch = 64
    """New model: images in a batch of new ones, and of rehearsed ones."""
    memory_batch: Annotated[Samples, IN_PYTHON] = 64
    """Samples in a batch of rehearsed ones."""
    even_batches: Annotated[bool, IN_PYTHON] = True
    """The last batch of an epoch is not a small one."""
    optimiser: str = "adamw"
    """New model: how parameters move, `adamw` or `sgd`."""
    lr: Annotated[Positive | None, IN_PYTHON] = None
    """Learning rate, the highest one of its schedule [default: the optimiser's]."""
    schedule: str = "one-cycle"
    """New model: how the learning rate changes while a folder is learned, `one-cycle` or
    `constant`."""
    tasks: Count | None = None
    """New model: how many folders it will learn; GEM and A-GEM need to know."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """New model: decides initial weights, order, crops and what is kept."""


class NewModel(Protocol):
    """Options of a new model: how it learns, and its ResNet."""

    image_size: Annotated[int, Field(ge=8, le=512)] | None = None
    """New model: side of the squares that images are resized to [default: 32; for a network of your
    own what --preprocessing says, or 224]."""
    width: Width = 16
    """New model: channels of the ResNet's first stage."""
    blocks: Blocks = 1
    """New model: residual blocks in a stage."""
    stages: Stages = 4
    """New model: stages of the network."""
    augment: Literal["standard", "none"] = "standard"
    """New model: random crop and flip, or neither."""
