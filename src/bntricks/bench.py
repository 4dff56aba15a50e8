"""What a step costs, against plain PyTorch on the same machine in the same run.

"raw32" is one forward, backward and SGD step of 32 images already in memory, written out here in
plain PyTorch. Every method's step, with augmentation, replay, memory and all, is measured beside
it, interleaved: each round measures everything once, a round's ratios share its noise, and the
median over rounds is reported with a 95% interval. Process CPU time, one thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.batch import Batch
from bntricks.learner import Learner
from bntricks.methods import entries, make
from bntricks.nets import ResNet
from bntricks.policies import GradientGreedy, stored
from bntricks.recipe import Method
from bntricks.streams.augment import View

BATCH, MEMORY, CLASSES, PAST = 32, 500, 10, 3
FAR = 10**6
"""Steps until φ is read: so far that a deferred tracking pass is left out."""
BOUNDS = {
    "er": 2.05,
    "er-bnt": 2.05,
    "der++": 3.1,
    "der++-bnt": 2.05,
    "icarl": 1.45,
    "a-gem": 2.1,
    "fdr": 2.1,
    "lwf": 1.1,
    "gss, gate closed": 4.5,
    "gss, gate open": 7.0,
    "gem": 11.5,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A ratio to raw32: its median, the 95% interval of the median, and what was to be reached."""

    name: str
    ratio: float
    low: float
    high: float
    bound: float | None
    met: bool | None


def bench(
    *,
    methods: Sequence[str] | None = None,
    width: int = 64,
    rounds: int = 15,
    report: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """The table of ratios, for `bnt bench`."""
    torch.set_num_threads(1)
    names = list(entries()) if methods is None else list(methods)
    steps = {"raw32": raw_step(width)}
    for done, name in enumerate(names):
        report("warming up", done, len(names))
        steps |= method_steps(name, width)
    times = {name: np.empty(rounds) for name in steps}
    for index in range(rounds):
        report("measuring", index, rounds)
        for name, step in steps.items():
            start = time.process_time()
            step()
            times[name][index] = time.process_time() - start
    rows = [row(name, times[name] / times["raw32"]) for name in steps if name != "raw32"]
    spread = float(np.std(times["raw32"]) / np.mean(times["raw32"]))
    return {
        "unit": f"raw32: forward + backward + SGD of {BATCH} images, ResNet-18 width {width}",
        "rounds": rounds,
        "raw_spread": spread,
        "rows": [asdict(r) for r in rows],
    }


def row(name: str, ratios: np.ndarray[Any, Any]) -> Row:
    """The median, with its interval by order statistics; a bound is met if the interval reaches
    below it and the median is within 3% of it."""
    ordered = np.sort(ratios)
    half = 0.98 * np.sqrt(len(ordered))  # 1.96 · √(n · ½ · ½)
    middle = (len(ordered) - 1) / 2
    low = float(ordered[max(int(np.floor(middle - half)), 0)])
    high = float(ordered[min(int(np.ceil(middle + half)), len(ordered) - 1)])
    median, bound = float(np.median(ordered)), BOUNDS.get(name)
    met = None if bound is None else low <= bound and median <= 1.03 * bound
    return Row(name, median, low, high, bound, met)


def raw_step(width: int) -> Callable[[], None]:
    """Plain PyTorch, as anyone would write it."""
    torch.manual_seed(0)
    net = ResNet(CLASSES, width=width)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
    x, y = torch.randn(BATCH, 3, 32, 32), torch.randint(CLASSES, (BATCH,))

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def method_steps(name: str, width: int) -> dict[str, Callable[[], None]]:
    """A step of this method in its fourth task, its memory filled; GSS with its gate both ways."""
    method = make(name)
    if not isinstance(method.memory, GradientGreedy):
        return {name: method_step(method, width)}
    gates = {"closed": -math.inf, "open": math.inf}
    return {
        f"{name}, gate {word}": method_step(
            replace(method, memory=replace(method.memory, gate=gate)), width
        )
        for word, gate in gates.items()
    }


def method_step(method: Method, width: int) -> Callable[[], None]:
    learner, x, y = prepared(method, width)

    def step() -> None:
        learner.observe(x, y, ids=torch.arange(BATCH), horizon=FAR)

    step()
    return step


def prepared(method: Method, width: int) -> tuple[Learner, Tensor, Tensor]:
    """A learner that has seen three tasks of random images, and a batch of the fourth."""
    torch.manual_seed(0)
    learner = Learner(
        ResNet(CLASSES, width=width).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        method,
        memory=MEMORY,
        lr=0.001,
        view=View((0.5,) * 3, (0.25,) * 3, pad=4, flip=True),
        tasks=MEMORY // 100,
        epochs=1,
        batch=BATCH,
    )
    for task in range(PAST + 1):
        classes = torch.tensor([2 * task, 2 * task + 1])
        x = torch.randint(256, (200, 3, 32, 32), dtype=torch.uint8)
        y = classes[torch.arange(200) % 2]
        learner.begin(classes.tolist(), x, y)
        if task == PAST:
            break
        if method.memory is not None and method.memory.fills == "step":
            fill(learner, x, y)
        learner.end(x, y)
    return learner, x[:BATCH], y[:BATCH]


def fill(learner: Learner, x: Tensor, y: Tensor) -> None:
    """Put a task's images into memory without training on them."""
    memory = stored(learner.state)
    keep = min(len(y), memory.capacity - memory.filled)
    logits = torch.zeros(keep, CLASSES)
    memory.append(Batch(x[:keep], y[:keep], logits), task=learner.state.lesson.t)
    memory.offered = memory.filled
    memory.scores[: memory.filled] = 0.5
