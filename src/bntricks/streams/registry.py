"""The streams that can be opened by name. Those in `sources` register themselves, and any module
that is imported can register more:

    from bntricks import OpenOptions, StreamInfo, from_arrays, stream

    @stream("mine", summary="…", tasks="3 × 2", image_size=32, memory=200, data="embedded")
    def mine(info: StreamInfo, options: OpenOptions) -> Stream:
        return from_arrays(…)
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, overload

from bntricks.errors import UserError
from bntricks.files import expanded
from bntricks.plugins.registry import Registry
from bntricks.streams.apply import HELD_OUT, apply_options
from bntricks.streams.files.progress import OnProgress, Warn, silent
from bntricks.streams.rearrange import ClassOrder, check_choices, plain_choice
from bntricks.streams.stream import Stream

SMALLEST, LARGEST = 8, 512
DEFAULTS: dict[str, Any] = {"held_out": HELD_OUT, "classes_per_task": None, "tasks": None}
"""Options that an opener has to register if it applies them itself."""

Origin = Literal["embedded", "download", "given"]
"""Where images come from: the package, or `data` if the stream takes any; `data`, or else the
official archive; only `data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is known about a stream before its images are read, as plain values."""

    name: str
    summary: str
    tasks: str
    """Tasks × classes."""
    image_size: int
    """Native size, or the default where images have none of their own."""
    memory: int
    """Default capacity of the memory."""
    official: tuple[int, int] | None = None
    """Training and test images of the full data set."""
    data: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """What a stream is opened with. An opener need not heed it: it returns all images, and every
    option is applied to what it returns. It may read fewer images, or make them smaller, by
    `images_per_class` and `image_size`; the others hold defaults, unless it registers that it
    applies them."""

    data: Path | None = None
    data_is_given: bool = False
    """Whether `data` was an argument; otherwise it is BNT_DATA, which all data sets share."""
    image_size: int | None = None
    images_per_class: int | None = None
    classes_per_task: int | None = None
    tasks: Sequence[Sequence[str]] | None = None
    held_out: float = HELD_OUT
    report: OnProgress = silent
    """Called with the progress of the work."""
    warn: Warn = warnings.warn
    """Called with a sentence about anything that was repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOptions(OpenOptions):
    """The options of a stream whose images the user gives (`data="given"`)."""

    data: Path


Opener = Callable[[StreamInfo, OpenOptions], Stream]
GivenOpener = Callable[[StreamInfo, GivenOptions], Stream]

STREAMS: dict[str, StreamInfo] = {}
"""In the order in which lists show them: first those that need no download."""
OPENERS: Registry[Callable[..., Stream]] = Registry("stream", group="bntricks.streams")


@overload
def stream(
    name: str, *, data: Literal["given"], applies: Sequence[str] = (), **about: Any
) -> Callable[[GivenOpener], GivenOpener]: ...
@overload
def stream(
    name: str,
    *,
    data: Literal["embedded", "download"],
    applies: Sequence[str] = (),
    **about: Any,
) -> Callable[[Opener], Opener]: ...
def stream(name: str, *, applies: Sequence[str] = (), **about: Any) -> Any:
    """Register a function that opens the stream of this name. `about` are the other values of its
    `StreamInfo`; `applies` names those of the options `held_out`, `classes_per_task` and `tasks`
    that the function applies itself."""

    def register(opener: Callable[..., Stream]) -> Callable[..., Stream]:
        def opened(info: StreamInfo, options: OpenOptions) -> Stream:
            others = {option: DEFAULTS[option] for option in DEFAULTS.keys() - set(applies)}
            made = opener(info, replace(options, **others))
            if not isinstance(made, Stream):
                raise UserError(
                    f"the function that opens it returned a {type(made).__name__}: it must return "
                    "a Stream, such as from_arrays makes",
                    option="stream",
                    value=name,
                )
            chosen = {option: getattr(options, option) for option in applies}
            done = {option: plain_choice(each) for option, each in chosen.items() if each}
            return replace(made, name=name, memory=info.memory, applied=done)

        OPENERS.add(name, opened)
        infos = (STREAMS | {name: StreamInfo(name=name, **about)}).values()
        STREAMS.clear()
        for info in sorted(infos, key=lambda info: get_args(Origin).index(info.data)):
            STREAMS[info.name] = info
        return opener

    return register


def __getattr__(name: str) -> Any:
    if name != "Options":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # until 0.4
    warnings.warn("streams.registry.Options is now called OpenOptions", FutureWarning, stacklevel=2)
    return OpenOptions


def open_stream(
    name: str,
    *,
    data: Path | str | None = None,
    image_size: int | None = None,
    images_per_class: int | None = None,
    classes_per_task: int | None = None,
    tasks: Sequence[Sequence[str]] | None = None,
    class_order: ClassOrder | None = None,
    first: int | None = None,
    increment: int | None = None,
    blurry: float = 0.0,
    held_out: float = HELD_OUT,
    validation: float | None = None,
    report: OnProgress | None = None,
    warn: Warn = warnings.warn,
) -> Stream:
    """Open a stream by its name (one of STREAMS).

    `data` is the folder the images lie in (default: the environment's BNT_DATA; without either,
    the official archive is downloaded once, unless images are embedded). `image_size` resizes to
    squares of that side; `images_per_class` keeps the first training images of each class and the
    whole test set. `classes_per_task`, `tasks`, `class_order`, `first`, `increment` and `blurry`
    are those of `rearrange`: which classes come together, and when. `held_out` is for streams
    without test images of their own. With `validation`, that share of each class's training images
    takes the place of the test images. `report` is called with the progress of the work, and `warn`
    with a sentence if something in the cache was damaged.
    """
    opener, info = OPENERS.find(name), STREAMS[name]
    wrong_size = image_size is not None and not SMALLEST <= image_size <= LARGEST
    no_images = images_per_class is not None and images_per_class < 1
    share = f"the share of each class kept for testing lies between 0 and 1, such as {HELD_OUT}"
    pixels = f"choose from {SMALLEST} to {LARGEST} pixels, or leave it out for {info.image_size}"
    some = "it must be at least 1; leave it out to take all images"
    for option, value, wrong, remedy in (
        ("image_size", image_size, wrong_size, pixels),
        ("images_per_class", images_per_class, no_images, some),
        ("held_out", held_out, not 0 < held_out < 1, share),
        ("validation", validation, validation is not None and not 0 < validation < 1, share),
    ):
        if wrong:
            raise UserError(remedy, option=option, value=value)
    check_choices(class_order, first, increment, classes_per_task, tasks, blurry)
    folder = data if data is not None else os.environ.get("BNT_DATA") or None
    if folder is None and info.data == "given":
        raise UserError(
            f"the stream {name!r} needs images, {info.summary}: say where they are",
            option="data",
        )
    chosen: dict[str, Any] = {
        "image_size": image_size,
        "images_per_class": images_per_class,
        "classes_per_task": classes_per_task,
        "tasks": tasks,
        "held_out": held_out,
    }
    options = (GivenOptions if info.data == "given" else OpenOptions)(
        data=None if folder is None else expanded(folder),  # type: ignore[arg-type]
        data_is_given=data is not None,
        report=silent if report is None else report,
        warn=warn,
        **chosen,
    )
    return apply_options(
        opener(info, options),
        **chosen,
        class_order=class_order,
        first=first,
        increment=increment,
        blurry=blurry,
        validation=validation,
    )
