"""A run's events for TensorBoard. The record of a run is its JSON lines; this is only a view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.training.progress import Sink


@contextmanager
def tensorboard_sink(folder: Path) -> Iterator[Sink]:
    """A sink that writes losses, accuracies and the drift of φ under `folder/tensorboard`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "this needs a package: pip install 'bntricks[tensorboard]'", option="tensorboard"
        ) from None
    writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def show(event: dict[str, Any]) -> None:
        kind, at = event["event"], event.get("step", 0)
        if kind in ("progress", "epoch"):
            writer.add_scalar("loss", event["loss"], at)
        if kind == "task":
            for task, accuracy in enumerate(event["accuracy"], start=1):
                if accuracy is not None:
                    writer.add_scalar(f"accuracy/task {task}", accuracy, at)
            writer.flush()
        for layer, shift in event.get("phi_drift", {}).items():
            writer.add_scalar(f"phi drift/{layer}", shift, at)

    try:
        yield show
    finally:
        writer.close()
