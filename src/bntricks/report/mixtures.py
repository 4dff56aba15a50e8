"""Runs of different protocols or data are never compared: such a mixture is an error that names two
of the runs, and what they differ in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.report.groups import Group


def check_one_protocol(study: Study, scale: ScaleName, sides: Sequence[Sequence[Group]]) -> None:
    """A side is one group, as two groups of a method differ in their protocol. Sides may differ in
    their methods and in what the study's variants change."""
    varied = {"hyper"} | {key for variant in study.variants for key in variant.values(scale)}
    for matching in sides:
        if len(matching) > 1:
            _refuse(matching[0], matching[1], matching[0].differences(matching[1]))
    for a, b in combinations([matching[0] for matching in sides if matching], 2):
        _refuse(a, b, a.differences(b) - varied)


def _refuse(a: Group, b: Group, keys: set[str]) -> None:
    """Two groups that differ in these knobs, if there are any."""
    differences = [f"{key} ({a.knobs[key]} and {b.knobs[key]})" for key in sorted(keys - {"data"})]
    if "data" in keys:
        differences.append("the images they learned")
    if differences:
        raise UserError(
            f"mixed protocols: {_first_run(a)} and {_first_run(b)} differ in "
            f"{', '.join(differences)}; keep the runs of each protocol in a folder of their own"
        )


def _first_run(group: Group) -> str:
    record = group.records[0]
    where = "" if record.path is None else f" ({record.path})"
    return f"{record.method} on {record.stream}, seed {record.seed}{where}"
