"""Where a run departs from the paper's protocol. The paper's numbers stand beside ours only where
nothing does: neither an option, nor |M|, nor the amount of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bntricks.paper import Entry, load_reported
from bntricks.report.groups import Group
from bntricks.runs.config import Config


def paper_numbers(group: Group) -> Entry | None:
    """The paper's result of the same runs, None where the protocol or the tables differ."""
    if departures(group):
        return None
    return load_reported().find(group.method, group.stream, group.knobs["memory"])


def departures(*groups: Group) -> list[str]:
    """Each knob that is not the paper's, with all values and the paper's, in the order of the
    options."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for group in groups:
        for name, own, usual in _departures(group):
            values.setdefault((name, usual), {})[own] = None
    texts = [f"{name} {_either([*own])} (paper: {usual})" for (name, usual), own in values.items()]
    return [*texts, "cut-down data"] if any(group.cut_down for group in groups) else texts


def _departures(group: Group) -> Iterator[tuple[str, str, str]]:
    """By name, our value and the paper's."""
    default, reported = Config().model_dump(mode="json"), load_reported()
    skipped = Config.options(of="memory") if group.knobs["memory"] is None else {"memory"}
    protocol = Config.options(changes="protocol") - skipped
    for key in default:
        if key in protocol and group.knobs[key] != default[key]:
            yield key.replace("_", " "), _text(key, group.knobs[key]), _text(key, default[key])
    # A record has the defaults of its method, too.
    for name, usual in reported.hyper_of(group.method, group.stream).items():
        if (own := group.knobs["hyper"].get(name, usual)) != usual:
            yield name, str(own), str(usual)
    sizes = {each.memory for each in reported.entries() if each.stream == group.stream}
    if sizes and group.knobs["memory"] not in {None, *sizes}:
        yield "memory", str(group.knobs["memory"]), str(reported.memory[group.stream])


def protocol_notes(groups: Iterable[Group]) -> list[str]:
    """Why rows stand without the paper's numbers, if any do."""
    texts = departures(*groups)
    if not texts:
        return []
    return [f"Without the paper's numbers where the protocol differs: {', '.join(texts)}."]


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return Config.role(key).unset if value is None else str(value)


def _either(values: Sequence[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last
