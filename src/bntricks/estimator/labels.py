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
    """The label of each output, in the order they came."""

    outputs: Array
    closed: bool = False
    """No others will come."""

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
        """These and those of y. If all that may ever come are listed, they are here from now on."""
        came = np.unique(y)
        if listed is None:
            return self._checked(came) if self.closed else self._with(came)
        every = np.unique(np.asarray(list(listed)))
        if self.closed and not np.array_equal(every, self.classes):
            raise UserError(
                f"classes are now {_shown(every)}, and were {_shown(self.classes)} in an earlier "
                "call: list the same, or leave them out"
            )
        _check_kind(every, self.outputs)
        if len(missing := np.setdiff1d(self.outputs, every)):
            raise UserError(f"classes lack {_shown(missing)}, known already: list all there are")
        return Labels(self._with(every).outputs, closed=True)._checked(came)

    def _with(self, came: Array) -> Labels:
        _check_kind(came, self.outputs)
        new = np.setdiff1d(came, self.outputs)
        return Labels(np.concatenate([self.outputs, new]) if len(self.outputs) else new)

    def _checked(self, came: Array) -> Labels:
        _check_kind(came, self.outputs)
        if len(strange := np.setdiff1d(came, self.outputs)):
            raise UserError(
                f"y holds {_shown(strange)}, not in classes: the first call listed "
                f"{_shown(self.classes)}; list all that may ever come, or leave classes out"
            )
        return self


NONE = Labels(np.empty(0))


def _check_kind(came: Array, known: Array) -> None:
    """Sorting needs labels of one kind, and numpy would turn numbers into text without a word."""
    if len(came) and len(known) and _is_text(came) != _is_text(known):
        raise UserError(
            f"labels are now like {_shown(came[:1])}, and were like {_shown(known[:1])}: "
            "give all of them as numbers, or all as text"
        )


def _is_text(labels: Array) -> bool:
    return labels.dtype.kind in "OU"


def _shown(labels: Array) -> str:
    some = ", ".join(map(repr, labels[:10].tolist()))
    return some + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
