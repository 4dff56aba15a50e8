"""Loggers, which write a run's numbers to TensorBoard, a CSV file or Weights & Biases. All get the
same numbers from the same events. A run's record is its JSON; these are only views, and only the
one named `online` uses a network."""

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bntricks.errors import extra
from bntricks.plugins.registry import Registry
from bntricks.runs.config import Config
from bntricks.training.events import Event, Sink

Write = Callable[[int, dict[str, float]], None]
"""Writes the numbers of a step, by name."""
Logger = Callable[[Path, Config], AbstractContextManager[Write]]
"""Opens a log for the run in this folder."""

LOGGERS: Registry[Logger] = Registry("logger")
CSV = "log.csv"


def numbers(event: Event) -> dict[str, float]:
    """Return what an event measured, by name."""
    kind = event["event"]
    values: dict[str, float | None] = {}
    if kind in ("progress", "epoch"):
        values["loss"] = event["loss"]
    if kind in ("task", "evaluation"):
        group = "accuracy" if kind == "task" else "epoch accuracy"
        for task, accuracy in enumerate(event["accuracy"], start=1):
            values[f"{group}/task {task}"] = accuracy
    if kind == "end":
        values |= {"acc": event["acc"], "bwt": event["bwt"]}
    for layer, shift in event.get("phi_drift", {}).items():
        values[f"phi drift/{layer}"] = shift
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def logging(names: Iterable[str], folder: Path, config: Config) -> Iterator[Sink]:
    """Yield a sink that passes the numbers of every event to each of these loggers."""
    openers = [LOGGERS.find(name) for name in dict.fromkeys(names)]
    with ExitStack() as stack:
        writers = [stack.enter_context(opener(folder, config)) for opener in openers]
        step, last = 0, (-1, dict[str, float]())

        def log(event: Event) -> None:
            nonlocal step, last
            step = event.get("step", step)
            values = numbers(event)
            if values and (step, values) != last:  # the end of an epoch repeats its last progress
                last = step, values
                for write in writers:
                    write(step, values)

        yield log


@LOGGERS.named("tensorboard")
@contextmanager
def tensorboard(folder: Path, config: Config) -> Iterator[Write]:
    """Write event files to `tensorboard` in the run's folder."""
    with extra(option="log", value="tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def write(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    try:
        yield write
    finally:
        writer.close()


@LOGGERS.named("csv")
@contextmanager
def csv_file(folder: Path, config: Config) -> Iterator[Write]:
    """Write step, name and value to `log.csv` in the run's folder."""
    path = folder / CSV
    with path.open("a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if not file.tell():
            rows.writerow(("step", "name", "value"))

        def write(step: int, values: dict[str, float]) -> None:
            rows.writerows((step, name, value) for name, value in values.items())
            file.flush()

        yield write


@contextmanager
def wandb(folder: Path, config: Config, *, mode: Literal["offline", "online"]) -> Iterator[Write]:
    """Log to a Weights & Biases run of the same name, kept in the run's folder."""
    with extra(option="log", value="wandb"):
        import wandb as package
    run = package.init(
        project="bntricks",
        id=folder.name,
        name=f"{config.method}, {config.stream}, seed {config.seed}",
        config=config.model_dump(mode="json"),
        dir=str(folder),
        mode=mode,
        resume="allow" if mode == "online" else None,
        settings=package.Settings(console="off", silent=True),
    )
    try:
        yield lambda step, values: run.log(values, step=step)
    finally:
        run.finish()


LOGGERS.named("wandb")(partial(wandb, mode="offline"))
LOGGERS.named("wandb-online")(partial(wandb, mode="online"))
