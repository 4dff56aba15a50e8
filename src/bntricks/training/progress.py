"""Progress of a run, without ever making a step wait for its loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bntricks.errors import RunError

Sink = Callable[[dict[str, Any]], None]
"""Hears what happens, as plain values: `data`, `begin`, `resumed`, `progress`, `epoch`, `work`,
`task`, `warning`, `end`."""

TELL_SECONDS = 0.5


class Watch:
    """Counts steps, remembers the first loss that was not finite, and tells how it goes.

    Losses stay on the device until they are told, so a step never waits for one.
    """

    def __init__(
        self, sink: Sink, *, total: int, more: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.sink, self.total, self.done, self.more = sink, total, 0, more
        self.bad: Tensor | None = None
        self.loss: Tensor | None = None
        self.told = time.monotonic()
        self.where: dict[str, int] = {}

    def step(self, loss: Tensor, **where: int) -> None:
        self.done += 1
        self.where = where
        if self.bad is None:
            self.bad = torch.full((), -1, device=loss.device)
        self.bad = torch.where((self.bad < 0) & ~loss.isfinite(), self.done, self.bad)
        self.loss = loss
        if time.monotonic() - self.told >= TELL_SECONDS:
            self.tell("progress")

    def tell(self, event: str) -> None:
        """Read the newest loss, and say where the run is."""
        self.told = time.monotonic()
        self.check()
        loss = None if self.loss is None else self.loss.item()
        at = {"step": self.done, "steps": self.total, "loss": loss}
        self.sink({"event": event, **self.where, **at, **self.more()})

    def report(self, what: str, done: int, total: int) -> None:
        """Progress of work between the steps: a warm-up, herding."""
        self.sink({"event": "work", "what": what, "done": done, "total": total})

    def check(self) -> None:
        """Stop if a loss was not finite."""
        bad = -1 if self.bad is None else int(self.bad)
        if bad >= 0:
            raise RunError(
                f"the loss was not finite at step {bad} of {self.total} "
                f"(task {self.where['task']}): lower --lr"
            )
