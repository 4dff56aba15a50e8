"""A whole epoch of a run, with loading, augmentation, replay, memory and progress: against the
plain passes it consists of, and the share of it that is not network.

The run says when an epoch is over, and the plain passes are made right there, between two epochs.
The network's time is taken inside the epoch, around every forward, backward and optimiser step, so
that nothing noisy is subtracted from anything noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from bntricks.networks.resnet import ResNet
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.streams import Images, OnProgress, Stream, Task
from bntricks.training.checkpoint import Checkpoints
from bntricks.training.events import Event
from bntricks.training.optimisers import GradientDescent
from costs.plain_pytorch import plain_steps
from costs.settings import BATCH, CAPACITY, CLASSES, VIEW, Settings, random_images
from costs.timing import Row, Values, Workload

ENDLESS = 10**6
"""Epochs: φ is read when the task is over, so the read is never near and tracking is deferred."""


def epochs(settings: Settings, report: OnProgress) -> list[Row]:
    width, side, count = settings.width, settings.side, settings.batches
    two_passes = plain_steps(width, side, passes=2, batch=BATCH, steps=count)
    one_pass = plain_steps(width, side, passes=1, batch=2 * BATCH, steps=count)
    er_bnt = measured("er-bnt", width, settings, report, plain=two_passes)
    er = measured("er", width, settings, report, plain=one_pass)
    narrow = measured("er-bnt", settings.narrow, settings, report)
    overhead, share = "er-bnt: all but the network, width", "of the epoch"
    two_raw, one_raw = "× two raw passes of 32", "× a raw pass of 64"
    return [
        Row.of("epoch", "er-bnt", er_bnt.epoch / er_bnt.plain, two_raw, bound=1.03),
        Row.of("epoch", "er", er.epoch / er.plain, one_raw, bound=1.03),
        Row.of("epoch", f"{overhead} {width}", er_bnt.overhead, share, bound=0.02),
        Row.of("epoch", f"{overhead} {settings.narrow}", narrow.overhead, share, bound=0.15),
    ]


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of every round."""

    epoch: Values
    network: Values
    """The part of the epoch that was spent in forwards, backward passes and optimiser steps."""
    plain: Values

    @property
    def overhead(self) -> Values:
        """The share of the epoch that is not the network's."""
        return 1 - self.network / self.epoch


class AllMeasured(Exception):
    """All rounds are measured."""


def measured(
    method: str,
    width: int,
    settings: Settings,
    report: OnProgress,
    *,
    plain: Workload = lambda: None,
) -> Times:
    """Epochs of this method, each followed by the plain work to compare it with; the first fills
    the memory and is not counted."""
    rounds: list[tuple[float, float, float]] = []
    start = time.process_time()
    with network_clock() as network, TemporaryDirectory() as folder:

        def on_event(event: Event) -> None:
            nonlocal start
            if event["event"] != "epoch":
                return
            end = time.process_time()
            in_network = network.seconds
            plain()
            rounds.append((end - start, in_network, time.process_time() - end))
            report(f"measuring epochs of {method}", len(rounds), settings.rounds + 1)
            if len(rounds) > settings.rounds:
                raise AllMeasured
            network.seconds, start = 0.0, time.process_time()

        never_due = Checkpoints(Path(folder), {}, seconds=inf)
        config = Config(method=method, width=width, batch=BATCH, lr=0.001, epochs=ENDLESS)
        with suppress(AllMeasured):
            train(config, one_task(settings), sink=on_event, checkpoints=never_due)
    return Times(*np.array(rounds[1:]).T)


def one_task(settings: Settings) -> Stream:
    """Random images of two classes, as many as an epoch has; the classifier has ten outputs."""
    x = random_images(settings.batches * BATCH, settings.side)
    labelled = Images(x, torch.arange(len(x)) % 2)
    return Stream(
        name="random",
        tasks=(Task((0, 1), labelled, labelled),),
        class_names=tuple(map(str, range(CLASSES))),
        mean=VIEW.mean,
        std=VIEW.std,
        fingerprint="random",
        pad=VIEW.pad,
        flip=VIEW.flip,
        memory=CAPACITY,
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

    methods = ((ResNet, "forward"), (torch.Tensor, "backward"), (GradientDescent, "step"))
    with ExitStack() as patches:
        for owner, name in methods:
            patches.enter_context(patch.object(owner, name, timed(getattr(owner, name))))
        yield clock
