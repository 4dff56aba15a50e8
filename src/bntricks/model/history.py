"""The history of a model: an entry for each change, in the order of time, to which entries are only
ever added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, uint8

from bntricks.errors import abbreviated
from bntricks.files import shown
from bntricks.intervals import mean_share
from bntricks.model.options import Positive
from bntricks.options import Options
from bntricks.training.checkpoint import versions

Name = Annotated[str, Field(min_length=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
VersionText = Annotated[str, Field(pattern=r"^[\w.+-]{1,80}$")]
Versions = dict[Annotated[str, Field(pattern=r"^[a-z]{1,20}$")], VersionText]
Whole = Annotated[int, Field(ge=0)]
Event = Literal[
    "adopted",
    "learned",
    "refused",
    "accepted",
    "renamed",
    "removed",
    "recalibrated",
    "rolled back",
]
Percent = Annotated[float, Field(ge=0, le=100)]


class HistoryEntry(Options):
    """A change of a model."""

    event: Event
    date: Day
    """In UTC."""
    classes: tuple[Name, ...] = ()
    """Those that were new; of a renaming or a removal, their names before."""
    more: tuple[Name, ...] = ()
    """Classes that were known already, of which there were more images."""
    images: Whole = 0
    data: Digest | None = None
    """Of the images, those held out included, with their class names."""
    epochs: Whole = 0
    steps: Whole = 0
    lr: Positive | None = None
    """The highest rate of the lesson."""
    accuracy: dict[Name, tuple[Whole, Whole]] = Field(default_factory=dict)
    """By class: confirming images that were recognised afterwards, and their number."""
    old: tuple[Percent, Percent] | None = None
    """The accuracy on old classes before and after, in percent, with the same weight for each."""
    note: str = ""
    """Why a lesson was refused, the new name of a class, or what a roll-back went to."""
    parent: Digest | None = None
    """The checksum of the file that was changed."""
    versions: Versions = Field(default_factory=dict)
    command: str | None = None

    @property
    def change(self) -> str:
        """Describe it in a few words."""
        names = abbreviated([shown(name) for name in self.classes], 6)
        more = abbreviated([f"more of {shown(name)}" for name in self.more], 6)
        what = ", ".join(filter(None, (names, more)))
        note = f"({shown(self.note)})" if self.note and self.event != "refused" else ""
        return " ".join(filter(None, (self.event, what, note)))

    @property
    def all(self) -> tuple[float, float, float] | None:
        """The accuracy on all classes in percent, with its interval; None if one has no images."""
        return mean_share(list(self.accuracy.values()))


def entry(event: Event, **values: Any) -> HistoryEntry:
    """Make an entry of today."""
    return HistoryEntry.of(event=event, date=today(), versions=versions(), **values)


def appended(history: Sequence[HistoryEntry], new: HistoryEntry) -> tuple[HistoryEntry, ...]:
    """Add an entry. A lesson that was refused and repeated to the same end is there once."""
    earlier = tuple(history)
    if earlier and earlier[-1].event == "refused" and _lesson(earlier[-1]) == _lesson(new):
        earlier = earlier[:-1]
    return (*earlier, new)


def _lesson(own: HistoryEntry) -> dict[str, Any]:
    return own.model_dump(exclude={"event", "date", "command", "versions", "note"})


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def checksum(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Hash plain values, and the name, kind, shape and bits of each tensor."""
    kinds = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    digest = hashlib.sha256(json.dumps([description, kinds], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].contiguous().reshape(-1).view(uint8).numpy().data)
    return digest.hexdigest()
