"""Probes look at a learner when a task is over. They move no state and draw from no generator of
the run: a run with a probe and one without are the same run. What a probe sees it leaves beside the
record, as a map of features, while the run goes on; a run that is resumed keeps it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from bntricks.batch import shuffled
from bntricks.errors import UserError
from bntricks.norm import mode, update_ema
from bntricks.runs import maps
from bntricks.runs.maps import BiasedPhi, Map, Panel, PanelName
from bntricks.runs.train import Probe
from bntricks.runs.tsne import picture, tsne
from bntricks.seeds import generator
from bntricks.streams import Images, Stream, Task
from bntricks.training.learner import Learner

BIASED_BATCHES = 100
THIRD = 3
IMAGES_PER_CLASS = 60
IMAGES = 600
"""More points than this cannot be told apart by eye."""


def statistics(learner: Learner, stream: Stream, index: int, *, seed: int, path: Path) -> None:
    """Figure 1 b/c: after the last task, the network under its own φ, and under φ that has followed
    that task alone for a while."""
    if index < len(stream) - 1:
        return
    biased = with_biased_phi(learner, stream[-1], generator(seed, "biased φ"))
    accuracy, share = evaluate(learner, stream)
    biased_accuracy, biased_share = evaluate(biased, stream)
    images = first_images(stream)
    balanced_panel = panel("balanced", learner, images, seed)
    biased_panel = panel("biased", biased, images, seed, start=balanced_panel)
    measured = BiasedPhi.of(accuracy, biased_accuracy, share, biased_share)
    maps.save(make_map(stream, images, [balanced_panel, biased_panel], measured), path)


def overlap(learner: Learner, stream: Stream, index: int, *, seed: int, path: Path) -> None:
    """Figure 4: images of the first three tasks, before the third is learned and after. Where
    there are fewer, the last task plays the third."""
    three = stream[:THIRD]
    images = first_images(three)
    if index == len(three) - 2:
        maps.save(make_map(three, images, [panel("before", learner, images, seed)]), path)
    elif index == len(three) - 1:
        earlier = earlier_map(path)
        before = None if earlier is None else earlier.panel("before")
        after = panel("after", learner, images, seed, start=before)
        maps.save(make_map(three, images, [before, after] if before else [after]), path)


Look = Callable[..., None]

PROBES: dict[str, tuple[Look, tuple[PanelName, ...]]] = {
    "statistics": (statistics, ("balanced", "biased")),
    "overlap": (overlap, ("before", "after")),
}
"""Every probe, by the name a study asks for it, with the panels of its map."""


def find(name: str) -> tuple[Look, tuple[PanelName, ...]]:
    if name not in PROBES:
        raise UserError(f"unknown probe {name!r}: there are {', '.join(PROBES)}")
    return PROBES[name]


def probe(name: str, folder: Path, seed: int) -> Probe:
    """The probe of this name for the run in this folder."""
    return partial(find(name)[0], seed=seed, path=maps.path_in(folder, name))


def looked(name: str, folder: Path, stream: Stream) -> bool:
    """Whether this probe has seen the run in this folder to its end, and left a whole map."""
    earlier = earlier_map(maps.path_in(folder, name))
    wanted = set(find(name)[1]) - ({"before"} if len(stream) == 1 else set())
    return earlier is not None and wanted <= {panel.name for panel in earlier.panels}


def biased_phi(folder: Path) -> BiasedPhi | None:
    """What the `statistics` probe of a run has measured, for its record."""
    earlier = earlier_map(maps.path_in(folder, "statistics"))
    return None if earlier is None else earlier.biased_phi


def forget(folder: Path) -> None:
    """Remove the maps of a run that is to be trained again."""
    for name in PROBES:
        maps.path_in(folder, name).unlink(missing_ok=True)


def with_biased_phi(learner: Learner, task: Task, random: Generator) -> Learner:
    """The same learner with a copy of its network, whose φ has followed batches of this task in
    training mode; θ is the same."""
    net = copy.deepcopy(learner.net)
    state = learner.state
    with mode(net, training=True):
        for ids in islice(endless(len(task.train), state.batch, random), BIASED_BATCHES):
            x = state.view(task.train.x[ids].to(learner.device), random)
            with state.arithmetic(x):
                update_ema(net, x)
    return learner.with_net(net)


def endless(count: int, size: int, order: Generator) -> Iterator[Tensor]:
    """Batches of indices, epoch after epoch."""
    while True:
        yield from shuffled(count, size, order)


def evaluate(learner: Learner, stream: Stream) -> tuple[list[float], float]:
    """In percent: accuracy on each task, and the share of all predictions that fall on the last
    task's classes."""
    predictions = [learner.predict(task.test.x) for task in stream]
    hits = [(p == task.test.y).double() for p, task in zip(predictions, stream, strict=True)]
    on_last_task = torch.isin(torch.cat(predictions), torch.tensor(stream[-1].classes)).double()
    return [100 * each.mean().item() for each in hits], 100 * on_last_task.mean().item()


def first_images(stream: Stream) -> Images:
    """The first test images of each class."""
    classes = [label for task in stream for label in task.classes]
    at_most = max(1, min(IMAGES_PER_CLASS, IMAGES // len(classes)))
    picked = [
        (task.test.x[ids], task.test.y[ids])
        for task in stream
        for label in task.classes
        if len(ids := (task.test.y == label).nonzero().flatten()[:at_most])
    ]
    x, y = (torch.cat(part) for part in zip(*picked, strict=True))
    return Images(x, y)


def panel(
    name: PanelName, learner: Learner, images: Images, seed: int, start: Panel | None = None
) -> Panel:
    """Where this learner's network puts the images, and the classes it predicts."""
    initial = None if start is None else np.stack([start.x, start.y], axis=1)
    points = tsne(learner.state.features(images.x.to(learner.device)), seed, initial)
    return Panel(
        name=name,
        x=tuple(points[:, 0].round(3).tolist()),
        y=tuple(points[:, 1].round(3).tolist()),
        predicted=tuple(learner.predict(images.x).tolist()),
    )


def make_map(
    stream: Stream, images: Images, panels: Sequence[Panel], measured: BiasedPhi | None = None
) -> Map:
    """The map of these images of the stream."""
    return Map(
        task=len(stream),
        class_names=stream.class_names,
        labels=tuple(images.y.tolist()),
        images=tuple(map(picture, images.x)),
        panels=tuple(panels),
        biased_phi=measured,
    )


def earlier_map(path: Path) -> Map | None:
    """What was left here earlier. A damaged map counts as none, for it can be made again."""
    try:
        return maps.load(path)
    except UserError:
        return None
