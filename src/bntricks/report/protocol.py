"""Where a run departs from the paper's protocol. The paper's numbers stand beside ours only where
nothing does: neither an option, nor |M|, nor the amount of data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bntricks.paper import Entry, load_reported
from bntricks.report.groups import OF_THE_MEMORY, Group
from bntricks.runs.config import Config

NO_DEPARTURE = {"method", "stream", "seed", "imports", "device", "threads", "compile"}
NO_DEPARTURE |= {"deterministic", "ranks"}
"""Knobs that a row shows anyway, or that change how a run is computed and not what."""
NOT_SET = {"image_size": "the images' own", "images_per_class": "all", "class_order": "the usual"}
"""What an option without a value means."""


def paper_numbers(group: Group) -> Entry | None:
    """The paper's result of the same runs, None where the protocol or the tables differ."""
    if departures(group):
        return None
    return load_reported().find(group.method, group.stream, group.knobs["memory"])


def departures(group: Group) -> list[str]:
    """Each knob that is not the paper's, with both values, in the order of the options."""
    default = Config().model_dump(mode="json")
    skipped = NO_DEPARTURE | (OF_THE_MEMORY if group.knobs["memory"] is None else {"memory"})
    texts = [
        f"{_words(key)} {_text(key, group.knobs[key])} (paper: {_text(key, default[key])})"
        for key in default
        if key not in skipped and group.knobs[key] != default[key]
    ]
    sizes = {each.memory for each in load_reported().entries() if each.stream == group.stream}
    if sizes and group.knobs["memory"] not in {None, *sizes}:
        usual = load_reported().memory[group.stream]
        texts.append(f"memory {group.knobs['memory']} (paper: {usual})")
    if group.cut_down:
        texts.append("cut-down data")
    return texts


def protocol_notes(groups: Iterable[Group]) -> list[str]:
    """Why rows stand without the paper's numbers, if any do."""
    texts = dict.fromkeys(text for group in groups for text in departures(group))
    if not texts:
        return []
    return [f"Without the paper's numbers where the protocol differs: {', '.join(texts)}."]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _text(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in sorted(value.items())) or "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOT_SET.get(key, "none") if value is None else str(value)
