"""A whole epoch of the engine's own loop, with loading, augmentation, replay, memory and progress:
against the plain passes it consists of, and the share of it that is not network.

The engine says when an epoch is over, and the plain passes are made right there, between two
epochs. The network's time is taken inside the epoch, around every forward, backward and optimiser
step, so that nothing noisy is subtracted from anything noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bntricks.bench.raw import raw_steps
from bntricks.bench.rounds import Report, Row, Seconds, Subject, row
from bntricks.bench.setting import BATCH, CLASSES, MEMORY, VIEW, Setting, images
from bntricks.networks.resnet import ResNet
from bntricks.runs.checkpoint import Checkpoints
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.streams import Images, Stream, Task
from bntricks.training.optimisers import Descent

ENDLESS = 10**6
"""Epochs: φ is read when the task is over, so the read is never near and tracking is deferred."""


def epochs(setting: Setting, report: Report) -> list[Row]:
    width, side, count = setting.width, setting.side, setting.batches
    two_passes = raw_steps(width, side, passes=2, batch=BATCH, steps=count)
    one_pass = raw_steps(width, side, passes=1, batch=2 * BATCH, steps=count)
    er_bnt = measured("er-bnt", width, setting, report, beside=two_passes)
    er = measured("er", width, setting, report, beside=one_pass)
    narrow = measured("er-bnt", setting.narrow, setting, report)
    besides, share = "all but the network, width", "of the epoch"
    return [
        row("epoch", "er-bnt", er_bnt.epoch / er_bnt.raw, "× two raw passes of 32", bound=1.03),
        row("epoch", "er", er.epoch / er.raw, "× a raw pass of 64", bound=1.03),
        row("epoch", f"er-bnt: {besides} {width}", er_bnt.besides, share, bound=0.02),
        row("epoch", f"er-bnt: {besides} {setting.narrow}", narrow.besides, share, bound=0.15),
    ]


@dataclass(frozen=True, slots=True)
class Took:
    """CPU seconds of every round."""

    epoch: Seconds
    network: Seconds
    """The part of the epoch that was spent in forwards, backward passes and optimiser steps."""
    raw: Seconds

    @property
    def besides(self) -> Seconds:
        return 1 - self.network / self.epoch


class EnoughError(Exception):
    """All rounds are measured."""


def measured(
    method: str, width: int, setting: Setting, report: Report, *, beside: Subject = lambda: None
) -> Took:
    """Epochs of this method, each followed by the work to compare it with; the first fills the
    memory and is not counted."""
    rounds: list[tuple[float, float, float]] = []
    start = time.process_time()
    with network_clock() as network, TemporaryDirectory() as folder:

        def hear(event: dict[str, Any]) -> None:
            nonlocal start
            if event["event"] != "epoch":
                return
            over = time.process_time()
            inside = network.seconds
            beside()
            rounds.append((over - start, inside, time.process_time() - over))
            report(f"measuring epochs of {method}", len(rounds), setting.rounds + 1)
            if len(rounds) > setting.rounds:
                raise EnoughError
            network.seconds, start = 0.0, time.process_time()

        never_due = Checkpoints(Path(folder), {}, seconds=inf)
        config = Config(method=method, width=width, batch=BATCH, lr=0.001, epochs=ENDLESS)
        with suppress(EnoughError):
            train(config, one_task(setting), sink=hear, checkpoints=never_due)
    return Took(*np.array(rounds[1:]).T)


def one_task(setting: Setting) -> Stream:
    """Random images of two classes, as many as an epoch has; the classifier has ten outputs."""
    x = images(setting.batches * BATCH, setting.side)
    part = Images(x, torch.arange(len(x)) % 2)
    return Stream(
        name="random",
        tasks=(Task((0, 1), part, part),),
        class_names=tuple(map(str, range(CLASSES))),
        mean=VIEW.mean,
        std=VIEW.std,
        fingerprint="random",
        pad=VIEW.pad,
        flip=VIEW.flip,
        memory=MEMORY,
    )


@dataclass
class Clock:
    seconds: float = 0.0


@contextmanager
def network_clock() -> Iterator[Clock]:
    """Adds up the CPU time of all forwards, backward passes and optimiser steps."""
    clock = Clock()

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def work(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                clock.seconds += time.process_time() - start

        return work

    found = [
        (owner, name, getattr(owner, name))
        for owner, name in (
            (ResNet, "forward"),
            (torch.Tensor, "backward"),
            (Descent, "step"),
        )
    ]
    try:
        for owner, name, function in found:
            setattr(owner, name, timed(function))
        yield clock
    finally:
        for owner, name, function in found:
            setattr(owner, name, function)
