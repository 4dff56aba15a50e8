"""What each normalisation costs: a step of ER with it, in units of that step with BatchNorm. The
note says what the layer alone costs, forward and backward, since the kernels of PyTorch differ."""

from __future__ import annotations

import numpy as np
import torch

from bntricks.methods import make
from bntricks.networks.norms import NORMS, SCHEMES, bound
from bntricks.networks.norms.variant import Rows, given_rows
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network
from bntricks.streams import OnProgress
from costs.settings import BATCH, CLASSES, Settings
from costs.steps import learner_in_fourth_task
from costs.timing import Row, Workload, interleaved

BOUNDS = {
    "gn": 1.15,
    "ln": 1.15,
    "in": 1.15,
    "cn": 1.15,
    "brn": 1.15,
    "tbbn": 1.25,
    "adab2n": 1.25,
    "gn+ws": 1.25,
}
TASKS = CLASSES // 2
ROWS = Rows(4, torch.tensor([0] * BATCH + [1, 2] * (BATCH // 2)))
"""A joint batch of the fourth task."""


def norms(settings: Settings, report: OnProgress) -> list[Row]:
    names = [name for name in NORMS.entries() if name in SCHEMES]
    workloads: dict[str, Workload] = {}
    for done, name in enumerate(names):
        report("preparing the norms", done, len(names))
        workloads[name] = er_step(name, settings)
        workloads[f"{name} alone"] = layer_pass(name, settings)
    seconds = interleaved(workloads, settings.rounds, report, what="norms")
    alone = {name: seconds[f"{name} alone"] / seconds["bn alone"] for name in names}
    return [
        Row.of(
            "norm",
            name,
            seconds[name] / seconds["bn"],
            "× bn",
            bound=BOUNDS.get(name),
            note=f"the layer alone: {np.median(alone[name]):.2f} × bn",
        )
        for name in names
        if name != "bn"
    ]


def er_step(name: str, settings: Settings) -> Workload:
    """A step of ER in its fourth task."""
    shape = (3, settings.side, settings.side)
    options = NetworkOptions(width=settings.width, norm=name)
    net = build_network(options, shape, CLASSES, torch.Generator().manual_seed(0), tasks=TASKS)
    learner, x, y = learner_in_fourth_task(make("er"), settings, net)
    return lambda: learner.observe(x, y, ids=torch.arange(BATCH))


def layer_pass(name: str, settings: Settings) -> Workload:
    """Forward and backward of a layer of the first stage."""
    layer = bound(name, tasks=TASKS)(settings.width)
    maps = torch.randn(2 * BATCH, settings.width, settings.side, settings.side)
    x = maps.to(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn_like(x)

    def work() -> None:
        with given_rows(layer, ROWS):
            layer(x).backward(gradient)

    return work
