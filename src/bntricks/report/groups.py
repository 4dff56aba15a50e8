"""Groups of runs that differ in the seed alone, over which means are taken, and their labels.

Two groups are comparable if they learned the same images under the same protocol. A label names the
method and, where groups differ, its unusual options, so that all labels of a stream differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from bntricks.errors import UserError, counted
from bntricks.paper import STREAMS, load_reported
from bntricks.report.records import by_seed, unique
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import drawable
from bntricks.runs.config import Config
from bntricks.runs.record import Record

_DEFAULTS = Config().model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of one method, stream and protocol, by seed."""

    label: str
    variant: str
    """What the label has beside the method's name, but for the memory; empty if nothing."""
    method: str
    stream: str
    knobs: dict[str, Any]
    """What its runs have in common: the configuration but for the seed, and, under `data`, the
    fingerprint of the images."""
    records: tuple[Record, ...]

    @property
    def unsized(self) -> str:
        """The label without the memory's size."""
        return with_remark(self.method, self.variant)

    @property
    def cut_down(self) -> bool:
        """Whether it learned from less than the official data, which the paper did not."""
        return self.records[0].data.cut_down

    @property
    def joint(self) -> bool:
        """Whether it learned all tasks at once: an upper bound, not a competitor."""
        return any(row[task] is None for task, row in enumerate(self.records[0].accuracy))

    def values(self, name: str) -> list[float]:
        """Return a metric, or another number of a record, of every run that has it."""
        return list(by_seed(self.records, name).values())

    def mean(self, name: str) -> float | None:
        return mean(self.values(name))

    def sd(self, name: str) -> float | None:
        return sd(self.values(name))

    def differences(self, other: RunGroup) -> set[str]:
        """List the options in which two groups differ, except those that one method lacks."""
        differing = {key for key in self.knobs if self.knobs[key] != other.knobs[key]}
        return differing if self.method == other.method else differing - self._unshared(other)

    def comparable(self, other: RunGroup) -> bool:
        """Whether two groups differ in the method alone, and in options that one method lacks."""
        return not self.differences(other) - self._unshared(other)

    def _unshared(self, other: RunGroup) -> set[str]:
        memoryless = None in (self.knobs["memory"], other.knobs["memory"])
        owners = ("method", "memory") if memoryless else ("method",)
        return {"method", *Config.options(of=owners)}


def group(records: Iterable[Record]) -> list[RunGroup]:
    """Group runs, with streams in alphabetical order and methods in the paper's."""
    by_protocol: dict[str, list[Record]] = {}
    for record in unique(records).values():
        protocol = record.config.model_copy(update={"seed": 0})
        by_protocol.setdefault(protocol.identity(record.data.fingerprint), []).append(record)
    unlabelled = [_unlabelled(runs) for runs in by_protocol.values()]
    return sorted((_labelled(each, unlabelled) for each in unlabelled), key=_order)


def by_stream(groups: Iterable[RunGroup]) -> dict[str, list[RunGroup]]:
    """Arrange groups by stream."""
    streams: dict[str, list[RunGroup]] = {}
    for each in groups:
        streams.setdefault(each.stream, []).append(each)
    return streams


def best(values: Sequence[tuple[RunGroup, float | None]]) -> list[bool]:
    """Say, for each group's number, whether no comparable group has a higher one. A group that has
    no number, or no rival, is not the best."""
    marks = []
    for own, value in values:
        rivals = [v for g, v in values if g is not own and v is not None and own.comparable(g)]
        marks.append(value is not None and bool(rivals) and value >= max(rivals))
    return marks


def cut_down_label(groups: Iterable[RunGroup]) -> str:
    """Return a remark for our numbers; empty if the data was complete."""
    kinds = {each.cut_down for each in groups}
    if True not in kinds:
        return ""
    return "(partly cut-down data)" if False in kinds else "(cut-down data)"


def seeds_of(groups: Iterable[RunGroup]) -> str:
    """Say how many seeds groups have, from the fewest to the most."""
    fewest, *_, most = sorted([len(group.records) for group in groups] * 2)
    return f"{fewest} to {most} seeds" if fewest < most else counted(most, "seed")


def with_remark(name: str, remark: str) -> str:
    return f"{name} ({remark})" if remark else name


def stream_title(name: str) -> str:
    """Return the paper's name of a stream, if it has one."""
    return STREAMS.get(name, name)


def _unlabelled(runs: Sequence[Record]) -> RunGroup:
    first = runs[0]
    if len({len(record.accuracy) for record in runs}) > 1:
        raise UserError(
            f"{first.method} on {first.stream}: runs of one protocol with different numbers of "
            "tasks; train them again",
            remedy="force",
        )
    knobs = first.config.model_dump(mode="json", exclude={"seed"})
    knobs["data"] = first.data.fingerprint
    ordered = tuple(sorted(runs, key=lambda record: record.seed))
    return RunGroup(first.method, "", first.method, first.stream, knobs, ordered)


def _labelled(own: RunGroup, groups: Sequence[RunGroup]) -> RunGroup:
    """Label groups by the options that distinguish those of one stream."""
    beside = [other for other in groups if other.stream == own.stream]
    telling = set().union(*(own.differences(other) for other in beside))
    texts = {
        key: _data_text(own, beside) if key == "data" else _knob_text(key, value)
        for key, value in own.knobs.items()
        if key in telling and not _usual(key, value, beside)
    }
    variant = ", ".join(text for key, text in texts.items() if key != "memory")
    return replace(
        own,
        label=drawable(with_remark(own.method, ", ".join(texts.values()))),
        variant=drawable(variant),
    )


def _usual(key: str, value: Any, beside: Sequence[RunGroup]) -> bool:
    """Whether an option's value is the paper's or, if no group has that, the most frequent one."""
    values = [each.knobs[key] for each in beside]
    if key not in Config.options(of="memory") and _DEFAULTS.get(key) in values:
        return bool(value == _DEFAULTS[key])
    return 2 * values.count(value) > len(values)


def _data_text(own: RunGroup, beside: Sequence[RunGroup]) -> str:
    """Say how many images there are to learn from, if that distinguishes the data."""
    counts = {each.knobs["data"]: each.records[0].data.images["train"] for each in beside}
    fingerprint = own.knobs["data"]
    if len(set(counts.values())) < len(counts):
        return f"data {fingerprint[:8]}"
    return f"{counts[fingerprint]} images"


def _knob_text(key: str, value: Any) -> str:
    if key == "hyper":
        return ", ".join(f"{name} {number}" for name, number in sorted(value.items()))
    if key == "as_published":
        return "as published"
    if key == "imports":
        return ", ".join(f"{name} {digest[:8]}" for name, digest in sorted(value.items()))
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    return f"{key.replace('_', ' ')} {'none' if value is None else value}"


def _order(each: RunGroup) -> tuple[Any, ...]:
    rank = _paper_order().get(each.method, len(_paper_order()))
    return each.stream, rank, each.method, each.knobs["memory"] or 0, each.label


@cache
def _paper_order() -> dict[str, int]:
    """Return the order of methods in Table 3, with others after them."""
    entries = sorted(load_reported().entries(), key=lambda entry: entry.table != 3)
    return {method: rank for rank, method in enumerate(dict.fromkeys(e.method for e in entries))}
