"""Every option of a run, typed and bounded, with the paper's values as defaults.

A `Config` holds what a run's result depends on and nothing else, so it does not say where the data
is, where results go or how progress is shown. Its hash names the run. Most options are declared in
the folder that uses them.
"""

import hashlib
import json
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from bntricks.errors import UserError
from bntricks.files import parse_json
from bntricks.networks.options import NetworkOptions
from bntricks.options import Option, Options
from bntricks.recipes.options import RecipeOptions, TrainingOptions

REVISION = 1
"""Increased whenever the same configuration would train to different bits than before."""


class SubjectOptions(Options):
    """What runs are compared by."""

    shown_in: ClassVar[str] = "What is learned"

    method: Annotated[str, Option("subject", study_flag=False)] = "er-bnt"
    """The method, by its name in `bnt methods`."""
    hyper: Annotated[
        dict[str, float],
        Option("subject", "method", flag=False, study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The method's own hyper-parameters; on the command line each has a flag of its own name."""
    stream: Annotated[str, Option("subject", study_flag=False, competes=False)] = "seq-cifar10"
    """The stream of tasks, by its name in `bnt streams`."""
    seed: Annotated[
        int, Field(ge=0, le=2**32 - 1), Option("subject", study_flag=False, competes=False)
    ] = 0
    """Decides initial weights, order, crops, and what the memory keeps and draws."""


class StreamOptions(Options):
    """How a stream is cut into tasks, and how much of it is learned."""

    shown_in: ClassVar[str] = "Data"

    augment: Annotated[Literal["standard", "none"], Option(rare=True)] = "standard"
    """Random crop and flip, or neither."""
    image_size: Annotated[int | None, Field(ge=8, le=512), Option(unset="the images' own")] = None
    """Side to shrink images to (area mean) [default: their own; folder: 32]."""
    images_per_class: Annotated[int | None, Field(ge=1), Option(unset="all")] = None
    """Use only the first N training images of each class [default: all]."""
    classes_per_task: Annotated[int | None, Field(ge=1)] = None
    """Classes in each task; the last may have fewer [default: the stream's; folder: 2]."""
    first: Annotated[int | None, Field(ge=1), Option(decides_phi=True, rare=True)] = None
    """Classes in the first task, where later ones have as many as `increment` says."""
    increment: Annotated[int | None, Field(ge=1), Option(decides_phi=True, rare=True)] = None
    """Classes in each task after the first; the last may have fewer."""
    tasks: Annotated[
        tuple[str, ...] | None, Option(decides_phi=True, study_flag=False, competes=False)
    ] = None
    """One list of classes a task, as 'cat,dog' or '["cat", "dog"]', by name or by number."""
    class_order: Annotated[str | None, Option(unset="the usual")] = None
    """The order in which classes come: a seed, such as 1993, or all of them in a list, as
    'dog,cat,owl', '["dog", "cat", "owl"]' or '1,0,2' [default: the stream's]."""
    blurry: Annotated[float, Field(ge=0, lt=1), Option(decides_phi=True, rare=True)] = 0.0
    """Share of each class's training images that come in other tasks than its own."""
    held_out: Annotated[float, Field(gt=0, lt=1), Option(rare=True)] = 0.2
    """Folder streams: share of each class's images kept for testing."""
    validation: Annotated[float | None, Field(gt=0, lt=1), Option(competes=False, rare=True)] = None
    """Test on this share of each class's training images, and train on the rest; the test images
    are left alone [default: test on the test images]."""

    @field_validator("class_order", mode="before")
    @classmethod
    def _order_as_text(cls, order: Any) -> Any:
        """Accept a number or a list from Python, and keep text."""
        if isinstance(order, list | tuple):
            return json.dumps([str(name) for name in order], ensure_ascii=False)
        return str(order) if isinstance(order, int) else order

    @field_validator("tasks", mode="before")
    @classmethod
    def _as_text(cls, tasks: Any) -> Any:
        """Accept lists, which is also what the command line decodes, and keep text."""
        if not isinstance(tasks, list | tuple):
            return tasks
        return tuple(t if isinstance(t, str) else json.dumps(t, ensure_ascii=False) for t in tasks)

    @property
    def rearrangement(self) -> dict[str, Any]:
        """Return these options as keywords of `open_stream`."""
        keywords = set(StreamOptions.model_fields) - {"augment"}
        values = self.model_dump(include=keywords)
        if self.tasks is not None:
            values["tasks"] = [class_names(text, "tasks") for text in self.tasks]
        if (order := self.class_order) is not None:
            is_seed = order.isdecimal()
            values["class_order"] = int(order) if is_seed else class_names(order, "class_order")
        return values


def _device(name: str) -> str:
    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", name) is None:
        raise ValueError("give cpu, cuda, cuda:N or mps")
    return name


# Fields of the last base come first.
class Config(StreamOptions, NetworkOptions, RecipeOptions, TrainingOptions, SubjectOptions):
    """What is trained, on what, and how."""

    shown_in: ClassVar[str] = "Where it is computed"

    device: Annotated[str, AfterValidator(_device), Option("computation", study_flag=False)] = "cpu"
    """Where to compute: cpu, cuda, cuda:N or mps."""
    deterministic: Annotated[bool, Option("computation", rare=True)] = False
    """Allow only kernels that add in a fixed order: on CUDA, the same bits every time, but slower.
    On the CPU this makes no difference."""
    compile: Annotated[bool, Option("computation", rare=True)] = False
    """Let torch.compile make the network's passes: different last bits, and a minute or more of
    compiling. Meant for GPUs."""
    ranks: Annotated[
        int, Field(ge=1), Option("computation", flag=False, study_flag=False, competes=False)
    ] = 1
    """Processes this run is split over: as many as torchrun starts."""
    synchronised: Annotated[bool, Option(rare=True)] = False
    """Under torchrun: normalise by the batch statistics of all ranks together, not each by its
    own."""
    threads: Annotated[int, Field(ge=1, le=1024), Option("computation")] = 1
    """CPU threads. Different counts give different bits; many runs beat many threads."""
    start: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{64}$"),
        Option(flag=False, study_flag=False, competes=False),
    ] = None
    """The SHA-256 of the weights that the run starts from. It follows from the model that is
    given."""
    imports: Annotated[
        dict[str, str],
        Option("subject", "method", flag=False, study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The user's own files that the run uses, each with the SHA-256 of its content. They follow
    from what is imported."""

    def identity(self, fingerprint: str) -> str:
        """Return the run's name: a hash of this configuration and of the data's content.

        Values at their default are left out, so that an option added later does not rename old
        runs. Whoever changes a default must increase REVISION.
        """
        chosen = self.model_dump(mode="json", exclude_defaults=True)
        named = {"method": self.method, "stream": self.stream, "seed": self.seed}
        whole = {"revision": REVISION, "data": fingerprint, **chosen, **named}
        text = json.dumps(whole, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def class_names(text: str, option: str) -> list[str]:
    """Parse 'cat,dog' or '["cat", "dog"]', the value of this option."""
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
