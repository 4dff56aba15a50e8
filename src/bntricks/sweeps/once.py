"""Equivalent runs of a sweep are trained once: options that a method does not use make no run of
their own, and some runs are readings of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request
from bntricks.training.events import Event, Sink

if TYPE_CHECKING:
    from bntricks.sweeps.local import Failure


@dataclass(frozen=True, slots=True)
class Training:
    """A training for one run or for several."""

    config: Config
    readings: bool
    """Whether some of these are read off its network in another way."""


Train = Callable[[Sequence[Training], Request, "Sink"], Sequence["Record | Failure"]]
"""Trains all of these, side by side, and tells the sink what happens with the index of each."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One of the requested runs of a sweep."""

    index: int
    config: Config
    training: Config
    """What is trained for it."""
    reading: str | None
    """What it is called there, if it is read off another run's network."""

    def take(self, result: Record | Failure) -> Record | Failure:
        if isinstance(result, Record):
            return result.read_as(self.reading)
        return replace(result, config=self.config)


def each_once(
    configs: Sequence[Config], shared: Request, train: Train, sink: Sink
) -> list[Record | Failure]:
    """Return the results of all of these runs, in order."""
    groups = _groups(configs)

    def spread(event: Event) -> None:
        first, *others = groups[event["run"]]
        for run in (first, *([] if event["event"] == "warning" else others)):
            if run.reading is None or event["event"] != "finished":
                sink(event | {"run": run.index})

    results: dict[int, Record | Failure] = {}
    trained = train([_training(group) for group in groups], shared, spread)
    for group, result in zip(groups, trained, strict=True):
        for run in group:
            row = results[run.index] = run.take(result)
            if run.reading is not None and isinstance(row, Record):
                sink(finished(row) | {"run": run.index})
    return [results[index] for index in range(len(configs))]


def trainings(configs: Sequence[Config]) -> list[Training]:
    """List the trainings that these runs need."""
    return [_training(group) for group in _groups(configs)]


def part_of(configs: Sequence[Config], part: slice) -> list[Config]:
    """Select the runs of some trainings."""
    return [run.config for group in _groups(configs)[part] for run in group]


def finished(record: Record) -> Event:
    """Make the event that ends a run of a sweep."""
    event: Event = {"event": "finished", "acc": record.acc, "bwt": record.bwt}
    return event | {"already_there": record.already_there}


def _groups(configs: Sequence[Config]) -> list[list[_Run]]:
    """Group runs by their training. A run that shares it with no other is trained as requested."""
    if len(configs) == 1:  # nothing to share, and no need of torch here
        return [[_Run(0, configs[0], configs[0], None)]]
    by_training: dict[str, list[_Run]] = {}
    for index, config in enumerate(configs):
        run = _run(index, config)
        by_training.setdefault(run.training.model_dump_json(), []).append(run)
    return [
        group if len(group) > 1 else [replace(group[0], training=group[0].config, reading=None)]
        for group in by_training.values()
    ]


def _training(group: Sequence[_Run]) -> Training:
    return Training(group[0].training, any(run.reading is not None for run in group))


def _run(index: int, config: Config) -> _Run:
    # torch, only when there is something to train.
    from bntricks.runs.readings import name_of, trunk
    from bntricks.runs.resolve import normalised

    try:
        used = normalised(config)
        training = trunk(used)
    except Exception:  # which is for the run itself to say
        return _Run(index, config, config, None)
    return _Run(index, config, training, None if training == used else name_of(used))
