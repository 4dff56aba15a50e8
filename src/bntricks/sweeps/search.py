"""A search for hyper-parameters: runs that differ in some options, over a grid or at random, and
are tested on images cut from the training images."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from bntricks.errors import UserError, did_you_mean
from bntricks.report.search import SearchCell, SearchResult
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps.local import Failure, sweep
from bntricks.training.events import Sink, silent

if TYPE_CHECKING:
    from bntricks.runs.record import Record

VALIDATION = 0.1
"""The share of training images that cells are compared on, unless the configuration names one."""
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?")
DRAWS_PER_CELL = 100
"""How often a random search tries for a cell that it has not had yet."""


@dataclass(frozen=True, slots=True)
class Range:
    """All values from `low` to `high`, drawn evenly, or evenly in their logarithm."""

    low: float
    high: float
    log: bool = False

    def draw(self, generator: np.random.Generator) -> float:
        """Draw a value, rounded to three digits so that it can be read and typed again."""
        share = generator.random()
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        return min(max(float(f"{value:.3g}"), self.low), self.high)


Knobs = Mapping[str, Sequence[Any] | Range]
"""Options of a run, or hyper-parameters of its method, with the values to try."""


@dataclass(frozen=True, slots=True)
class Search:
    """The cells of a search, each with its configuration."""

    cells: tuple[dict[str, Any], ...]
    configs: tuple[Config, ...]
    seeds: int

    @property
    def runs(self) -> list[Config]:
        """List every cell with every seed, seeds outermost: early results already compare."""
        return [
            config.model_copy(update={"seed": config.seed + number})
            for number in range(self.seeds)
            for config in self.configs
        ]

    def result(self, results: Sequence[Record | Failure]) -> SearchResult:
        """Make the result of the runs, which are in their order."""
        count = len(self.cells)
        cells = []
        for index, knobs in enumerate(self.cells):
            own = results[index::count]
            records = tuple(result for result in own if not isinstance(result, Failure))
            cells.append(SearchCell(knobs, records, failed=len(own) - len(records)))
        return SearchResult(tuple(cells))


def search(
    config: Config,
    knobs: Knobs,
    *,
    draws: int | None = None,
    seeds: int = 3,
    shared: Request = Request(),  # noqa: B008 (frozen)
    workers: int | None = None,
    sink: Sink = silent,
) -> SearchResult:
    """Train every combination of the options' values, or some random draws, with each seed. Cells
    are compared on validation images; the result's `config` is the best, for training on all
    training images."""
    planned = plan_search(config, knobs, draws=draws, seeds=seeds)
    return planned.result(sweep(planned.runs, shared, workers=workers, sink=sink))


def plan_search(
    config: Config, knobs: Knobs, *, draws: int | None = None, seeds: int = 3
) -> Search:
    """List the cells of a search: a grid, or reproducible random draws without repetition. Nothing
    is ever tested on the test images."""
    if not knobs:
        raise UserError("nothing to search: name a knob with its values, such as lr=0.01,0.1")
    base = config.model_copy(update={"validation": config.validation or VALIDATION})
    combinations = _grid(knobs) if draws is None else _drawn(knobs, draws)
    cells, configs = [], []
    for values in combinations:
        chosen = with_values(base, values)
        cells.append({key: _value(chosen, key) for key in values})
        configs.append(chosen)
    return Search(tuple(cells), tuple(configs), seeds)


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """Return the configuration with these options or hyper-parameters of its method."""
    from bntricks.methods import find

    options = {key: value for key, value in values.items() if key in Config.model_fields}
    hyper = {key: value for key, value in values.items() if key not in options}
    changed = Config.of(**(config.model_dump() | options))
    known = find(changed.method).hyper()
    for key, value in hyper.items():
        if key not in known:
            near = did_you_mean(key, [*known, *Config.model_fields])
            raise UserError(
                f"neither an option of a run nor a hyper-parameter of {changed.method}{near}",
                option=key,
            )
        try:
            hyper[key] = float(value)
        except ValueError:
            raise UserError("give a number", option=key, value=value) from None
    return changed.model_copy(update={"hyper": {**changed.hyper, **hyper}})


def parse_knobs(texts: Sequence[str]) -> dict[str, Sequence[str] | Range]:
    """Parse `lr=0.01,0.1` or `lr=0.001..0.1:log` into values or a range."""
    knobs: dict[str, Sequence[str] | Range] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        choices = [value.strip() for value in values.split(",")]
        if not name or not equals or not all(choices):
            raise UserError(f"{text!r} names no values: write it as lr=0.01,0.1")
        if name in knobs:
            raise UserError("it is given twice: list all of its values together", option=name)
        if name in Config.options(competes=False):
            raise UserError("this is the same for all cells: leave it out here", option=name)
        knobs[name] = _range(name, values) if ".." in values else choices
    return knobs


def _range(name: str, text: str) -> Range:
    match = RANGE.fullmatch(text.strip())
    if match is None:
        raise UserError(
            "write a range as 0.001..0.1, or as 0.001..0.1:log", option=name, value=text
        )
    low, high, log = float(match[1]), float(match[2]), match[3] is not None
    if not (math.isfinite(low) and math.isfinite(high) and low < high and (low > 0 or not log)):
        raise UserError(
            "a range goes from a smaller number to a larger one, above 0 if it is logarithmic",
            option=name,
            value=text,
        )
    return Range(low, high, log)


def _grid(knobs: Knobs) -> Iterator[dict[str, Any]]:
    for key, values in knobs.items():
        if isinstance(values, Range):
            raise UserError("a grid has listed values: a range is for draws", option=key)
    for combination in product(*(values for values in knobs.values())):  # type: ignore[arg-type]
        yield dict(zip(knobs, combination, strict=True))


def _drawn(knobs: Knobs, draws: int) -> Iterator[dict[str, Any]]:
    generator = np.random.default_rng(0)
    seen: set[tuple[Any, ...]] = set()
    for _ in range(DRAWS_PER_CELL * draws):
        values = tuple(_draw(generator, key, tried) for key, tried in knobs.items())
        if values not in seen:
            seen.add(values)
            yield dict(zip(knobs, values, strict=True))
        if len(seen) == draws:
            return


def _draw(generator: np.random.Generator, key: str, tried: Sequence[Any] | Range) -> Any:
    if not isinstance(tried, Range):
        return tried[int(generator.integers(len(tried)))]
    value = tried.draw(generator)
    return round(value) if _is_whole(key) else value


def _is_whole(key: str) -> bool:
    """Whether an option takes whole numbers only."""
    field = Config.model_fields.get(key)
    return field is not None and int in _kinds(field.annotation)


def _kinds(annotation: Any) -> set[Any]:
    return {annotation}.union(*map(_kinds, get_args(annotation)))


def _value(config: Config, key: str) -> Any:
    return getattr(config, key) if key in Config.model_fields else config.hyper[key]
