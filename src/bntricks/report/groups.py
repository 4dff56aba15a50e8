"""Groups of runs that differ in the seed alone, over which means are taken, and their labels.

Two groups are comparable if they learned the same images under the same protocol. A label names the
method and, where groups differ, its unusual options, so that all labels of a stream differ.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from bntricks.errors import UserError, counted
from bntricks.paper import STREAMS, Side, load_reported
from bntricks.report.figures.looks import NO_LOOK, Look, counterpart, looks
from bntricks.report.records import by_seed, unique
from bntricks.report.statistics import mean, sd
from bntricks.report.tables.table import drawable
from bntricks.runs.config import Config
from bntricks.runs.record import Record

_DEFAULTS = Config().model_dump(mode="json")
_OF_METHOD = {"method", *Config.options(of="method")}
_OF_MEMORY = {*Config.options(of="memory")}
TITLES = {"correct": "Correction", "data": "Images", "recalibrate": "Recalibration"}
TITLES |= {"hyper": "Hyper-parameters", "lr": "lr"}
"""Of columns whose option has another name."""
_NUMBERS = re.compile(r"(\d+(?:\.\d+)?)")
MOST_DRAWN = 12
"""Series of a figure."""
_FIRST = ("norm", "correct", "epochs", "memory")
"""Options with a column of their own."""
OTHER, MOST_OTHER = "Other options", 2
"""The column of all others, if there are more."""


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
    protocol: str
    """The options that comparable groups share, whatever their methods and memories."""
    store: str | None
    """The options of the memory that comparable groups share; None without a memory."""
    look: Look = NO_LOOK
    """The same in every figure of a report."""
    remarks: dict[str, str] = field(default_factory=dict)
    """What the label has beside the method's name, by option."""
    drawn: bool = True
    """Whether figures show it until a reader chooses others."""

    @property
    def title(self) -> str:
        """The method's name, as the paper writes it if it has one."""
        return method_title(self.method)

    @property
    def unsized(self) -> str:
        """The label without the memory's size."""
        return with_remark(self.title, self.variant)

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
        alike = None in (self.store, other.store) or self.store == other.store
        return alike and self.protocol == other.protocol

    def _unshared(self, other: RunGroup) -> set[str]:
        memoryless = None in (self.knobs["memory"], other.knobs["memory"])
        return _OF_METHOD | _OF_MEMORY if memoryless else _OF_METHOD


def group(records: Iterable[Record]) -> list[RunGroup]:
    """Group runs, with streams in alphabetical order and methods in the paper's."""
    by_protocol: dict[str, list[Record]] = {}
    for record in unique(records).values():
        protocol = record.config.model_copy(update={"seed": 0})
        by_protocol.setdefault(protocol.identity(record.data.fingerprint), []).append(record)
    streams = by_stream(map(_unlabelled, by_protocol.values()))
    return sorted((each for own in streams.values() for each in _labelled(own)), key=_order)


def by_stream(groups: Iterable[RunGroup]) -> dict[str, list[RunGroup]]:
    """Arrange groups by stream."""
    streams: dict[str, list[RunGroup]] = {}
    for each in groups:
        streams.setdefault(each.stream, []).append(each)
    return streams


def best(values: Sequence[tuple[RunGroup, float | None]]) -> list[bool]:
    """Say, for each group's number, whether no comparable group has a higher one. A group that has
    no number, or no rival, is not the best."""
    rivals: dict[str, list[tuple[RunGroup, str | None, float]]] = {}
    for own, value in values:
        if value is not None:
            rivals.setdefault(own.protocol, []).append((own, own.store, value))
    marks = []
    for own, value in values:
        store = own.store
        beside = [
            v
            for rival, other, v in rivals.get(own.protocol, ())
            if rival is not own and (None in (store, other) or store == other)
        ]
        marks.append(value is not None and bool(beside) and value >= max(beside))
    return marks


def columns(groups: Sequence[RunGroup]) -> dict[str, list[str]]:
    """Return the options that distinguish groups of a stream, by title, with each group's value."""
    streams = by_stream(groups)
    telling = {key for own in streams.values() for keys in _telling(own) for key in keys}
    first = [key for key in _FIRST if key in telling]
    rest = [key for key in groups[0].knobs if key in telling and key not in first]
    several = len(rest) > MOST_OTHER
    found = {
        option_title(key): option_values(key, groups) for key in [*first, *rest * (not several)]
    }
    if several:
        found[OTHER] = [
            ", ".join(text for key, text in each.remarks.items() if key not in _FIRST)
            for each in groups
        ]
    return found


def first_drawn(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Mark at most a dozen groups to draw: of the protocol that most groups have, and with their
    counterparts with or without BN Tricks before others."""
    alike = Counter(each.protocol for each in groups)
    known = {(each.method, each.variant) for each in groups}
    seen = Counter[tuple[str, str]]()
    ranks = {}
    for place, each in enumerate(groups):
        paired = (counterpart(each.method), each.variant) in known
        own = each.protocol, each.method
        ranks[each.label] = (-alike[each.protocol], seen[own], not paired, place)
        seen[own] += 1
    drawn = sorted(ranks, key=lambda label: ranks[label])[:MOST_DRAWN]
    return [replace(each, drawn=each.label in drawn) for each in groups]


def on_chart(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Return the groups that are drawn, labelled by what distinguishes them from each other."""
    shown = [each for each in groups if each.drawn]
    if len(shown) == len(groups):
        return shown
    common = shared_remarks(groups)
    kept = ([t for t in each.remarks.values() if t not in common] for each in shown)
    return [
        replace(each, label=with_remark(each.title, ", ".join(remarks)))
        for each, remarks in zip(shown, kept, strict=True)
    ]


def shared_remarks(groups: Sequence[RunGroup]) -> list[str]:
    """List what the labels of all drawn groups say, if not all groups are drawn."""
    shown = [each for each in groups if each.drawn]
    if not shown or len(shown) == len(groups):
        return []
    known = {key: text for each in shown for key, text in each.remarks.items()}
    return [
        text
        for key, text in known.items()
        # What has no memory has none of another size.
        if all(
            e.remarks.get(key) == text or (key, e.knobs["memory"]) == ("memory", None)
            for e in shown
        )
    ]


def option_title(key: str) -> str:
    return TITLES.get(key) or key.replace("_", " ").capitalize()


def option_values(key: str, groups: Sequence[RunGroup]) -> list[str]:
    """Write an option's value of each group."""
    images = {stream: _images(own) for stream, own in by_stream(groups).items()}
    return [_value_text(key, each, images[each.stream]) for each in groups]


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


@cache
def method_title(name: str) -> str:
    """Return the paper's name of a method, if it has one."""
    return drawable(load_reported().titles.get(name, name))


def side_title(side: Side) -> str:
    """Name one side of a claim."""
    return ", ".join(filter(None, (method_title(side.method), side.variant)))


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
    protocol = _values(knobs, knobs.keys() - _OF_METHOD - _OF_MEMORY)
    store = None if knobs["memory"] is None else _values(knobs, _OF_MEMORY - _OF_METHOD)
    return RunGroup(first.method, "", first.method, first.stream, knobs, ordered, protocol, store)


def _values(knobs: Mapping[str, Any], keys: Iterable[str]) -> str:
    return sys.intern(repr([(key, knobs[key]) for key in sorted(keys)]))


def _labelled(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Label the groups of one stream by the options that distinguish them; give each its look."""
    usual = {key: _usual(key, groups) for key in groups[0].knobs}
    images = _images(groups)
    found = []
    for own, telling in zip(groups, _telling(groups), strict=True):
        texts = {
            key: _data_text(images[value]) if key == "data" else _knob_text(key, value)
            for key, value in own.knobs.items()
            if key in telling and repr(value) != usual[key]
        }
        variant = drawable(", ".join(text for key, text in texts.items() if key != "memory"))
        label = drawable(with_remark(own.title, ", ".join(texts.values())))
        remarks = {key: drawable(text) for key, text in texts.items()}
        found.append(replace(own, label=label, variant=variant, remarks=remarks))
    found.sort(key=_order)
    own_looks = looks([(each.method, each.variant) for each in found])
    return [replace(each, look=look) for each, look in zip(found, own_looks, strict=True)]


def _telling(groups: Sequence[RunGroup]) -> list[set[str]]:
    """List, for each group of a stream, the options in which it differs from others, except those
    that one of the two methods lacks."""
    values: dict[tuple[str, str | bool | None], set[str]] = {}

    def scopes(own: RunGroup, key: str) -> list[str | bool | None]:
        """The groups to compare with: of the same method, those with a memory, or all."""
        if key in _OF_METHOD:
            return [own.method]
        if key in _OF_MEMORY:
            return [own.method, *[True] * (own.knobs["memory"] is not None)]
        return [None]

    for own in groups:
        for key, value in own.knobs.items():
            for scope in scopes(own, key):
                values.setdefault((key, scope), set()).add(repr(value))
    return [
        {key for key in own.knobs if any(len(values[key, scope]) > 1 for scope in scopes(own, key))}
        for own in groups
    ]


def _usual(key: str, groups: Sequence[RunGroup]) -> str | None:
    """Find the value that labels leave out: the paper's or, if no group has that, one that most
    have."""
    values = Counter(repr(each.knobs[key]) for each in groups)
    if key not in _OF_MEMORY and key in _DEFAULTS and repr(_DEFAULTS[key]) in values:
        return repr(_DEFAULTS[key])
    value, count = values.most_common(1)[0]
    return value if 2 * count > len(groups) else None


def _data_text(text: str) -> str:
    return f"{text} images" if text.isdecimal() else f"data {text}"


def _value_text(key: str, own: RunGroup, images: Mapping[str, str]) -> str:
    value = own.knobs[key]
    if key == "data":
        return images[value]
    if value is None:
        return "–" if key == "memory" else Config.role(key).unset
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _knob_text(key, value).removeprefix(f"{key.replace('_', ' ')} ") or "none"


def _images(groups: Sequence[RunGroup]) -> dict[str, str]:
    """Name the data of a stream by the number of its images, or by its fingerprint if there are
    several of one number."""
    counts = {each.knobs["data"]: each.records[0].data.images["train"] for each in groups}
    several = len(set(counts.values())) < len(counts)
    return {data: data[:8] if several else str(count) for data, count in counts.items()}


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
    parts = _NUMBERS.split(each.label)  # every second part is a number
    numbers = [float(part) if place % 2 else part for place, part in enumerate(parts)]
    return each.stream, rank, each.method, each.knobs["memory"] or 0, numbers


@cache
def _paper_order() -> dict[str, int]:
    """Return the order of methods in Table 3, with others after them."""
    entries = sorted(load_reported().entries(), key=lambda entry: entry.table != 3)
    return {method: rank for rank, method in enumerate(dict.fromkeys(e.method for e in entries))}
