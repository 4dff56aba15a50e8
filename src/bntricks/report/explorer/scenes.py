"""The data of the explorer: accuracy by the newest task's share of φ, from runs with that probe.
Methods are in one scene if they learned the same images under the same protocol."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bntricks.errors import UserError
from bntricks.report.commands import run_command, words_of
from bntricks.report.figures.looks import BNT
from bntricks.report.groups import RunGroup, group, stream_title
from bntricks.report.tables.table import drawable
from bntricks.runs.record import Record

PLAIN = {"er": "Replay (ER)", "er-bnt": "Replay + BN Tricks"}
"""Names that say what the method does, for readers who know none."""
NOTHING = (
    "no run here was probed for the newest task's share of φ: `bnt demo` makes such runs, and so "
    "does `bnt run` with the probe phi"
)


@dataclass(frozen=True, slots=True)
class Point:
    """Mean accuracies in percent over seeds, at one share of the newest task in φ."""

    share: float
    old: float
    newest: float
    acc: float
    tasks: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class MethodLine:
    """A method's points by share."""

    method: str
    name: str
    colour: str
    dash: tuple[int, ...]
    seeds: int
    own: float | None
    """The share that the method's own φ has in the end, if it follows from the recipe."""
    points: tuple[Point, ...]
    command: str

    def nearest(self, share: float) -> Point:
        """Return the measured point that is nearest to this share."""
        return min(self.points, key=lambda point: abs(point.share - share))


@dataclass(frozen=True, slots=True)
class Scene:
    """Methods that can be compared."""

    title: str
    lines: tuple[MethodLine, ...]

    @property
    def pair(self) -> tuple[MethodLine, MethodLine]:
        """The pair shown first: ER or another method and its BN Tricks form, else the first two."""
        by_method = {line.method: line for line in reversed(self.lines)}
        bases = [m for m in ("er", *by_method) if m in by_method and m + BNT in by_method]
        if bases:
            return by_method[bases[0]], by_method[bases[0] + BNT]
        return self.lines[0], self.lines[min(1, len(self.lines) - 1)]


def scenes(records: Iterable[Record]) -> list[Scene]:
    """Make every scene of these runs: ER and ER-BNT first, then those with most seeds and
    methods."""
    clusters: list[list[RunGroup]] = []
    for own in group(record for record in records if record.phi and record.phi.by_share):
        home = next((each for each in clusters if all(map(own.comparable, each))), None)
        if home is None:
            clusters.append([own])
        else:
            home.append(own)
    found = [scene for each in clusters if (scene := _scene(each)).lines]
    if not found:
        raise UserError(NOTHING, remedy="probe")
    most = max(len(scene.lines) for scene in found)
    return sorted((each for each in found if len(each.lines) > 1 or most == 1), key=_order)


def _order(scene: Scene) -> tuple[Any, ...]:
    of_er = [line.method for line in scene.pair] == ["er", "er" + BNT]
    seeds = min(line.seeds for line in scene.pair)
    return not of_er, -seeds, -len(scene.lines), scene.title


def _scene(groups: Sequence[RunGroup]) -> Scene:
    own = group(record for each in groups for record in each.records)
    title = drawable(stream_title(own[0].stream)) + _remark(groups[0])
    lines = map(_line, own)
    return Scene(title, tuple(line for line in lines if line.points))


def _line(own: RunGroup) -> MethodLine:
    first = own.records[0]
    shares = (record.new_share_of_phi for record in own.records)
    return MethodLine(
        method=own.method,
        name=PLAIN.get(own.method, own.title) + _remark(own),
        colour=own.look.colour,
        dash=own.look.dash,
        seeds=len(own.records),
        own=next((share for share in shares if share is not None), None),
        points=tuple(_points(own.records)),
        command=" ".join([run_command(first.config), *words_of("probe", "phi")]),
    )


def _remark(own: RunGroup) -> str:
    """Return the remark in a label after the method's name, in brackets; empty if there is none."""
    return own.label.removeprefix(own.title)


def _points(records: Sequence[Record]) -> Iterator[Point]:
    measured = [{at.share: at for at in (r.phi and r.phi.by_share) or ()} for r in records]
    for share in sorted(set.intersection(*map(set, measured))):
        own = [each[share] for each in measured]
        old, newest, acc = (
            _mean(getattr(at, part) for at in own) for part in ("old", "newest", "acc")
        )
        tasks = [at.tasks for at in own if at.tasks is not None]
        every = len(tasks) == len(own)
        by_task = tuple(map(_mean, zip(*tasks, strict=True))) if every else None
        yield Point(share, old, newest, acc, by_task)


def _mean(values: Iterable[float]) -> float:
    return round(fmean(values), 3)


def plain(scene: Scene) -> dict[str, Any]:
    """Convert a scene to plain values for a script."""
    pair = [scene.lines.index(line) for line in scene.pair]
    return asdict(scene) | {"pair": pair}
