"""Runs that differ in nothing but the seed: what a mean is taken over, and under which name.

Two groups are comparable if they learned the same images under the same protocol. A label names
the method and, where groups differ, the knobs that tell them apart, so no two groups share one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bntricks.errors import UserError
from bntricks.paper import STREAMS, load_reported
from bntricks.report.records import settings, unique
from bntricks.report.statistics import mean, sd
from bntricks.runs.record import Record

OF_THE_METHOD = {"hyper", "balance", "as_published"}
OF_THE_MEMORY = {"memory", "memory_batch"}


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one method, stream and protocol, by seed."""

    label: str
    method: str
    stream: str
    knobs: dict[str, Any]
    """Everything that its runs have in common: the configuration, and the data's fingerprint."""
    records: tuple[Record, ...]

    @property
    def seeds(self) -> list[int]:
        return [record["seed"] for record in self.records]

    @property
    def cut_down(self) -> bool:
        """Learned from less than the official data, and so not comparable with the paper."""
        return bool(self.records[0]["data"]["cut_down"])

    @property
    def joint(self) -> bool:
        """Trained on all tasks at once: an upper bound, no competitor."""
        r = self.records[0]["accuracy"]
        return any(row[task] is None for task, row in enumerate(r))

    def values(self, name: str) -> list[float]:
        return [record[name] for record in self.records if record[name] is not None]

    def mean(self, name: str) -> float | None:
        return mean(self.values(name))

    def sd(self, name: str) -> float | None:
        return sd(self.values(name))

    def comparable(self, other: Group) -> bool:
        """Whether they differ in the method alone, and in knobs that one of them does not have."""
        apart = {"method", *OF_THE_METHOD}
        if None in (self.knobs["memory"], other.knobs["memory"]):
            apart |= OF_THE_MEMORY
        return all(self.knobs[key] == other.knobs[key] for key in self.knobs.keys() - apart)


def group(records: Iterable[Record]) -> list[Group]:
    """The groups, streams in alphabetical order, methods in the paper's."""
    found: dict[str, list[Record]] = {}
    for record in unique(list(records)):
        found.setdefault(json.dumps(_knobs(record), sort_keys=True), []).append(record)
    bare = [_bare(runs) for runs in found.values()]
    named = [
        Group(_label(one, [g for g in bare if g.stream == one.stream]), *_rest(one)) for one in bare
    ]
    return sorted(named, key=_order)


def by_stream(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """The same groups, stream by stream."""
    streams: dict[str, list[Group]] = {}
    for one in groups:
        streams.setdefault(one.stream, []).append(one)
    return streams


def one_stream(records: Iterable[Record]) -> list[Group]:
    """Groups that one figure may show together."""
    groups = group(records)
    if len(streams := by_stream(groups)) != 1:
        raise UserError(f"a figure shows one stream, not {', '.join(streams) or 'none'}")
    return groups


def best(groups: Sequence[Group], name: str) -> list[bool]:
    """For each, whether no comparable group has a higher mean; nothing is best alone, and joint
    training is no competitor."""
    means = [one.mean(name) for one in groups]
    marks = []
    for one, own in zip(groups, means, strict=True):
        rivals = [
            theirs
            for other, theirs in zip(groups, means, strict=True)
            if theirs is not None and other is not one and not other.joint and one.comparable(other)
        ]
        marks.append(own is not None and not one.joint and bool(rivals) and own >= max(rivals))
    return marks


def stream_title(name: str) -> str:
    """The paper's name of a stream, where it has one."""
    return STREAMS.get(name, name)


def knob_text(key: str, value: Any) -> str:
    """A knob and its value, for a reader."""
    if key == "hyper":
        return ", ".join(f"{name} {number}" for name, number in sorted(value.items())) or "plain"
    if key == "as_published":
        return "as published" if value else "corrected"
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    return f"{key.replace('_', ' ')} {'none' if value is None else value}"


def _knobs(record: Record) -> dict[str, Any]:
    kept = {key: value for key, value in settings(record).items() if key != "seed"}
    return {**kept, "data": record["data"]["fingerprint"]}


def _bare(runs: Sequence[Record]) -> Group:
    first = runs[0]
    if len({len(record["accuracy"]) for record in runs}) > 1:
        raise UserError(
            f"{first['method']} on {first['stream']}: runs of one protocol with different numbers "
            "of tasks; train them again with --force"
        )
    ordered = tuple(sorted(runs, key=lambda record: int(record["seed"])))
    return Group(first["method"], first["method"], first["stream"], _knobs(first), ordered)


def _rest(one: Group) -> tuple[str, str, dict[str, Any], tuple[Record, ...]]:
    return one.method, one.stream, one.knobs, one.records


def _label(one: Group, beside: Sequence[Group]) -> str:
    telling = [
        knob_text(key, value)
        for key, value in one.knobs.items()
        if key not in ("method", "stream") and _tells(key, one, beside)
    ]
    return f"{one.method} ({', '.join(telling)})" if telling else one.method


def _tells(key: str, one: Group, beside: Sequence[Group]) -> bool:
    """A knob tells groups of a method apart if it differs there; one of the protocol is also told
    if it differs between methods that have it."""
    for other in beside:
        if other.knobs[key] == one.knobs[key]:
            continue
        memoryless = None in (other.knobs["memory"], one.knobs["memory"])
        of_protocol = key not in OF_THE_METHOD and not (memoryless and key in OF_THE_MEMORY)
        if of_protocol or other.method == one.method:
            return True
    return False


def _order(one: Group) -> tuple[Any, ...]:
    known = _paper_order().get(one.method, len(_paper_order()))
    return one.stream, known, one.method, one.knobs["memory"] or 0, one.label


@cache
def _paper_order() -> dict[str, int]:
    """Table 3 has most methods; what it lacks comes after."""
    entries = sorted(load_reported().entries(), key=lambda entry: entry.table != 3)
    return {method: rank for rank, method in enumerate(dict.fromkeys(e.method for e in entries))}
