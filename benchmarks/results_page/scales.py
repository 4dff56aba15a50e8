"""What a run is at each scale, beside the paper's."""

from collections.abc import Sequence

from bntricks.batch import batch_count
from bntricks.paper import SCALES, ScaleName, load_reported, load_study
from bntricks.report.tables.table import Cell, Table, number
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from results_page.evidence import STUDIES, runs_of

STREAM = "seq-cifar10"
SIDE = 32
"""Of CIFAR's images, which the paper does not shrink."""


def scales_table(records: Sequence[Record]) -> Table:
    """A row for the paper, and one for each scale that has runs."""
    any_run = next(record for record in records if record.stream == STREAM)
    rows = [_row("the paper's", paper_config(), _official(any_run), len(any_run.accuracy))]
    for scale in SCALES:
        runs = all_runs(scale, records)
        if runs:
            values = load_study("pilot").values(scale, STREAM)
            images = runs[0].data.images["train"]
            rows.append(_row(scale, Config(**values), images, len(runs[0].accuracy), len(runs)))
    columns = ("Scale", "Training images", "Image side", "Width", "Blocks a stage", "Memory")
    return Table("Scales", (*columns, "Epochs", "Steps a task", "Runs"), tuple(rows))


def all_runs(scale: ScaleName, records: Sequence[Record]) -> list[Record]:
    """The runs of every study at this scale, each once."""
    if scale == "smoke":
        return []
    here = [record for record in records if record.stream == STREAM]
    own = [run for name in STUDIES for run in runs_of(load_study(name), scale, here)]
    return list({id(run): run for run in own}.values())


def paper_config() -> Config:
    return Config(memory=load_reported().memory[STREAM])


def paper_steps(records: Sequence[Record]) -> int:
    """A task of the paper's protocol."""
    any_run = next(record for record in records if record.stream == STREAM)
    return _steps(paper_config(), _official(any_run), len(any_run.accuracy))


def _official(record: Record) -> int:
    images = record.data.official_images
    return (record.data.images if images is None else images)["train"]


def _steps(config: Config, images: int, tasks: int) -> int:
    return config.epochs * batch_count(images // tasks, config.batch)


def _row(
    name: str, config: Config, images: int, tasks: int, runs: int | None = None
) -> tuple[Cell, ...]:
    side, memory = config.image_size or SIDE, config.memory
    steps = _steps(config, images, tasks)
    numbers = (images, side, config.width, config.blocks, memory, config.epochs, steps, runs)
    return (Cell(name), *(number(each, 0) for each in numbers))
