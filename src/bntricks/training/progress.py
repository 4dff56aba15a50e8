"""The progress of a run; no step waits for its loss."""

import time
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from bntricks.errors import RunError
from bntricks.training.events import Event, Sink

REPORT_SECONDS = 0.5


class Progress:
    """Counts steps, reports progress, and remembers the first loss that was not finite. Losses stay
    on the device until they are reported."""

    def __init__(
        self, sink: Sink, *, total: int, drift: Callable[[], dict[str, float]] | None = None
    ) -> None:
        self.sink, self.total, self.done, self.drift = sink, total, 0, drift
        self.first_bad: Tensor | None = None
        self.loss: Tensor | None = None
        self.epoch_losses: list[float] = []
        """The mean loss of each epoch that is over."""
        self._sum: Tensor | None = None
        self._summed = 0
        self.reported_at = time.monotonic()
        self.where = 1, 1, 1, 1

    def step(
        self, loss: Tensor, *, task: int = 1, of: int = 1, epoch: int = 1, epochs: int = 1
    ) -> None:
        self.done += 1
        self.where = task, of, epoch, epochs
        if self.first_bad is None:
            self.first_bad = torch.full((), -1, device=loss.device)
        new = (self.first_bad < 0) & ~loss.isfinite()
        self.first_bad = torch.where(new, self.done, self.first_bad)
        self.loss = loss
        self._sum = loss if self._sum is None else self._sum + loss
        self._summed += 1
        if time.monotonic() - self.reported_at >= REPORT_SECONDS:
            self.emit("progress")

    def emit(self, kind: Literal["progress", "epoch"]) -> None:
        """Report the newest loss and the place in the run."""
        self.reported_at = time.monotonic()
        self.check()
        if kind == "epoch" and self._sum is not None:
            self.epoch_losses.append(self._sum.item() / self._summed)
            self._sum, self._summed = None, 0
        loss = None if self.loss is None else self.loss.item()
        task, of, epoch, epochs = self.where
        event: Event = {"event": kind, "task": task, "of": of, "epoch": epoch, "epochs": epochs}
        event |= {"step": self.done, "steps": self.total, "loss": loss}
        if self.drift is not None:
            event["phi_drift"] = self.drift()
        self.sink(event)

    def work(self, what: str, done: int, total: int | None) -> None:
        """Report the progress of work between the steps, such as herding."""
        self.sink({"event": "work", "what": what, "done": done, "total": total})

    def state_dict(self) -> dict[str, Any]:
        """Return the losses so far."""
        total = None if self._sum is None else self._sum.item()
        return {"epochs": self.epoch_losses, "sum": total, "summed": self._summed}

    def load_state_dict(self, state: dict[str, Any], step: int) -> None:
        """Restore the losses up to this step, and report that the run goes on."""
        self.done, self.epoch_losses = step, list(state["epochs"])
        self._sum = None if state["sum"] is None else torch.tensor(state["sum"])
        self._summed = state["summed"]
        self.sink({"event": "resumed", "step": self.done, "steps": self.total})

    def check(self) -> None:
        """Stop if a loss was not finite."""
        bad = -1 if self.first_bad is None else int(self.first_bad)
        if bad >= 0:
            raise RunError(
                f"the loss was not finite at step {bad} of {self.total} "
                f"(task {self.where[0]}): lower the learning rate",
                remedy="lr",
            )
