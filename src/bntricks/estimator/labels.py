"""Which class each output of a growing network stands for, in labels of any kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bntricks.errors import UserError

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Labels:
    """The label of each output, in the order they appeared."""

    outputs: Array
    closed: bool = False
    """No other labels may follow."""

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The outputs in the order of their sorted labels."""
        return np.argsort(self.outputs)

    @property
    def classes(self) -> Array:
        """All labels, sorted."""
        return self.outputs[self.order]

    def columns(self, y: Array) -> NDArray[np.intp]:
        """The output of each label, all of which must be known."""
        return self.order[np.searchsorted(self.classes, y)]

    def joined(self, y: Array, listed: Iterable[Any] | None = None) -> Labels:
        """These and those of y. If all that may ever appear are listed, they are here now."""
        present = np.unique(y)
        if listed is None:
            return self._checked(present) if self.closed else self._with(present)
        complete = np.unique(np.asarray(list(listed)))
        if self.closed and not np.array_equal(complete, self.classes):
            raise UserError(
                f"classes are now {_shown(complete)}, and were {_shown(self.classes)} in an "
                "earlier call: list the same, or leave them out"
            )
        _check_kind(complete, self.outputs)
        if len(missing := np.setdiff1d(self.outputs, complete)):
            raise UserError(
                f"classes lack {_shown(missing)}, which are known already: list all of them"
            )
        return Labels(self._with(complete).outputs, closed=True)._checked(present)

    def _with(self, present: Array) -> Labels:
        _check_kind(present, self.outputs)
        new = np.setdiff1d(present, self.outputs)
        return Labels(np.concatenate([self.outputs, new]) if len(self.outputs) else new)

    def _checked(self, present: Array) -> Labels:
        _check_kind(present, self.outputs)
        if len(unlisted := np.setdiff1d(present, self.outputs)):
            raise UserError(
                f"y holds {_shown(unlisted)}, not in classes: the first call listed "
                f"{_shown(self.classes)}; list all that may ever appear, or leave classes out"
            )
        return self


NONE = Labels(np.empty(0))


def _check_kind(present: Array, known: Array) -> None:
    """Sorting needs labels of one kind, and numpy would silently turn numbers into text."""
    if len(present) and len(known) and _is_text(present) != _is_text(known):
        raise UserError(
            f"labels are now like {_shown(present[:1])}, and were like {_shown(known[:1])}: "
            "give all of them as numbers, or all as text"
        )


def _is_text(labels: Array) -> bool:
    return labels.dtype.kind in "OU"


def _shown(labels: Array) -> str:
    some = ", ".join(map(repr, labels[:10].tolist()))
    return some + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
