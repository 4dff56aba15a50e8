"""The ways a command can fail on purpose. None of them ever shows a traceback.

An error names options as Python does (`memory_batch`), and never as flags: whoever shows it words
it for its reader. The command line says `--memory-batch`, scikit-learn's estimator `memory_batch`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class PlannedError(Exception):
    """Says what was wrong, what is allowed, and what to do next.

    `option` is the one whose `value` is the mistake, `remedy` one that would mend it.
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
        """The whole message, with options called as `name` calls them."""
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


class InvalidOptions(UserError):
    """One or more options have values that they cannot have."""

    def __init__(self, mistakes: tuple[UserError, ...]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes

    def worded(self, name: Callable[[str], str] = str) -> str:
        return "\n".join(mistake.worded(name) for mistake in self.mistakes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,)

    @classmethod
    def of(cls, error: ValidationError) -> InvalidOptions:
        """The mistakes that pydantic found."""
        return cls(
            tuple(
                UserError(
                    _lower(mistake["msg"]),
                    option=str(mistake["loc"][0]) if mistake["loc"] else "configuration",
                    # A mistake of several values together has all of them as its input.
                    value=mistake["input"] if mistake["loc"] else None,
                )
                for mistake in error.errors()
            )
        )


@contextmanager
def within_memory() -> Iterator[None]:
    """Say in one line that memory ran out, for which torch has no exception of its own."""
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
    """The name that was probably meant, as a question; empty if none is near."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f", did you mean {close[0]}?" if close else ""


def first_mistake(error: ValidationError) -> str:
    """Where in a nested value the first mistake is, and what it is."""
    mistake = error.errors()[0]
    where = ".".join(map(str, mistake["loc"]))
    return f"{where}: {mistake['msg']}" if where else _lower(mistake["msg"])


def _lower(text: str) -> str:
    text = text.removeprefix("Value error, ")  # pydantic's own word for a validator's
    return text[:1].lower() + text[1:]


def abbreviated(names: Sequence[str], at_most: int) -> str:
    """The first of these names, and how many more there are."""
    rest = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {rest} more" if rest > 0 else "")
