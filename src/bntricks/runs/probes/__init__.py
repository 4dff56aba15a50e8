"""Probes look at a learner when a task is over. They change no state and use no generator of the
run, so a run has the same bits with or without a probe. A probe writes what it measures to a file
in the run's folder at once, so a resumed run keeps it. In the end its numbers go into the record; a
map of features stays beside it."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from bntricks.batch import shuffled
from bntricks.errors import UserError
from bntricks.networks.head import seen_by_head
from bntricks.norm import Statistics, layers, mode, moments, swapped, update_ema
from bntricks.recipes.classifiers import squared_distances
from bntricks.runs.probes.tsne import picture, tsne
from bntricks.runs.record import Record, maps, phi
from bntricks.runs.record.maps import BiasedPhi, Map, Panel, PanelName
from bntricks.runs.record.phi import AtShare, PhiAccuracies
from bntricks.runs.train import Probe
from bntricks.seeds import generator
from bntricks.streams import Images, Stream, Task
from bntricks.training.learner import Learner

BIASED_BATCHES = 100
THIRD = 3
IMAGES_PER_CLASS = 60
MOMENTS_BATCH = 256
"""Large, because each batch is normalised by its own moments."""
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MIXED_BATCHES = 10
MEAN_OF = 50
"""Training images of each class for its mean feature."""
IMAGES = 600
"""Nobody can tell more points apart."""


def statistics(learner: Learner, stream: Stream, index: int, *, seed: int, path: Path) -> None:
    """Map features after the last task, under the network's own φ and under φ that has followed
    only that task for a while (Figure 1 b/c)."""
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
    """Map features of the first three tasks, before and after the third is learned (Figure 4). If
    there are fewer tasks, the last one counts as the third."""
    three = stream[:THIRD]
    images = first_images(three)
    if index == len(three) - 2:
        maps.save(make_map(three, images, [panel("before", learner, images, seed)]), path)
    elif index == len(three) - 1:
        earlier = earlier_map(path)
        before = None if earlier is None else earlier.panel("before")
        after = panel("after", learner, images, seed, start=before)
        maps.save(make_map(three, images, [before, after] if before else [after]), path)


def phi_accuracies(learner: Learner, stream: Stream, index: int, *, seed: int, path: Path) -> None:
    """Measure accuracy after the last task under the moments of all training images, of each task's
    own, of the stored ones, and of mixtures with more and more images of the last task."""
    if index < len(stream) - 1:
        return
    net, random = copy.deepcopy(learner.predictor), generator(seed, "φ from other images")
    memory, acc = learner.memory, fmean(evaluate(learner, stream)[0])
    stored = None
    if memory is not None and memory.x is not None and len(memory) > 1:
        stored = memory.x[: len(memory)]
    if not layers(net):  # no φ, so no other φ
        memory_acc = None if stored is None else acc
        phi.save(PhiAccuracies.of(acc, acc, task_acc=acc, memory_acc=memory_acc), path)
        return

    def phi_of(x: Tensor, parts: Iterable[Tensor]) -> Statistics:
        batches = (learner.view(x[part.to(x.device)].to(learner.device), None) for part in parts)
        return moments(net, batches, exact=False)

    def under(x: Tensor, parts: Iterable[Tensor], tasks: Sequence[Task]) -> list[float]:
        with swapped(net, phi_of(x, parts)):
            return evaluate(learner.with_net(net), tasks)[0]

    def under_all(x: Tensor, tasks: Sequence[Task]) -> list[float]:
        parts = torch.randperm(len(x), generator=random).tensor_split(-(-len(x) // MOMENTS_BATCH))
        return under(x, parts, tasks)

    every, newest = torch.cat([task.train.x for task in stream]), len(stream[-1].train)
    oracle = under_all(every, stream)
    own = [under_all(task.train.x, [task])[0] for task in stream]
    memory_acc = None if stored is None else fmean(under_all(stored, stream))
    by_share = None
    if len(stream) > 1:
        by_share = []
        for share in SHARES:
            parts = mixed(len(every) - newest, newest, share, random)
            with swapped(net, phi_of(every, parts)):
                by_share.append(at_share(share, learner.with_net(net), stream))
    others = {"task_acc": fmean(own), "memory_acc": memory_acc, "by_share": by_share}
    phi.save(PhiAccuracies.of(acc, fmean(oracle), **others), path)


def mixed(old: int, new: int, share: float, random: Generator) -> Iterator[Tensor]:
    """Yield batches of indices, this share of them among the `new` ones after the `old` ones."""
    count = round(share * MOMENTS_BATCH)
    for _ in range(MIXED_BATCHES):
        earlier = torch.randint(old, (MOMENTS_BATCH - count,), generator=random)
        yield torch.cat([earlier, old + torch.randint(new, (count,), generator=random)])


def at_share(share: float, learner: Learner, stream: Stream) -> AtShare:
    """Measure this learner, whose φ holds this share of the last task."""
    with seen_by_head(learner.predictor) as seen:
        accuracy = evaluate(learner, stream)[0]
    return AtShare(
        share=share,
        old=fmean(accuracy[:-1]),
        newest=accuracy[-1],
        acc=fmean(accuracy),
        tasks=tuple(accuracy),
        nearest_mean=nearest_mean(learner, stream, seen),
    )


def nearest_mean(learner: Learner, stream: Stream, seen: Sequence[Tensor]) -> float:
    """Measure ACC in percent by the nearest mean feature of each class's first training images.
    `seen` are features of the test images, if the head saw each once, or else of no use."""
    counts = [len(task.test.x) for task in stream]
    known = None
    if sum(map(len, seen)) == sum(counts):
        known = torch.split(torch.cat([part.float() for part in seen]), counts)
    labels, means = [], []
    for task in stream:
        for label in task.classes:
            first = (task.train.y == label).nonzero().flatten()[:MEAN_OF]
            if len(first):
                labels.append(label)
                means.append(learner.state.features(task.train.x[first]).mean(0))
    classes, centres = torch.tensor(labels), torch.stack(means)
    hits = []
    for index, task in enumerate(stream):
        own = learner.state.features(task.test.x) if known is None else known[index]
        distances = squared_distances(own, centres)
        hits.append((classes[distances.argmin(1).cpu()] == task.test.y).double().mean().item())
    return 100 * fmean(hits)


PROBES: dict[str, Callable[..., None]] = {
    "statistics": statistics,
    "overlap": overlap,
    "phi": phi_accuracies,
}
"""Every probe, by its name in `--probe`."""
PANELS = {"statistics": {"balanced", "biased"}, "overlap": {"before", "after"}}
"""Of the maps that they leave."""


def check(name: str | None, stream: Stream) -> None:
    """Refuse a probe that shows images of a stream that has none."""
    if name in PANELS and not stream.has_images:
        raise UserError("it shows images, and these are features", option="probe", value=name)


def probe(name: str, folder: Path, seed: int) -> Probe:
    """Return the probe of this name for the run in this folder."""
    return partial(PROBES[name], seed=seed, path=maps.path_in(folder, name))


def looked(name: str, record: Record, folder: Path, stream: Stream) -> bool:
    """Whether the finished run in this folder has been probed."""
    if name == "phi":
        return record.phi is not None
    earlier = earlier_map(maps.path_in(folder, name))
    wanted = PANELS[name] - ({"before"} if len(stream) == 1 else set())
    return earlier is not None and wanted <= {panel.name for panel in earlier.panels}


def findings(folder: Path) -> dict[str, Any]:
    """Collect what the probes of a run have measured, for its record."""
    earlier = earlier_map(maps.path_in(folder, "statistics"))
    biased = None if earlier is None else earlier.biased_phi
    return {"biased_phi": biased, "phi": phi.load(maps.path_in(folder, "phi"))}


def forget(folder: Path) -> None:
    """Remove what probes have left of a run that is to be trained again."""
    for name in PROBES:
        maps.path_in(folder, name).unlink(missing_ok=True)


def with_biased_phi(learner: Learner, task: Task, random: Generator) -> Learner:
    """Copy the learner with a network whose φ has followed batches of this task; θ is the same."""
    net = copy.deepcopy(learner.predictor)
    state = learner.state
    with mode(net, training=True):
        for ids in islice(endless(len(task.train), state.options.batch, random), BIASED_BATCHES):
            x = state.view(task.train.x[ids].to(learner.device), random)
            with state.arithmetic(x):
                update_ema(net, x)
    return learner.with_net(net)


def endless(count: int, size: int, order: Generator) -> Iterator[Tensor]:
    """Yield batches of indices, epoch after epoch."""
    while True:
        yield from shuffled(count, size, order)


def evaluate(learner: Learner, stream: Sequence[Task]) -> tuple[list[float], float]:
    """Measure accuracy on each task, and the share of all predictions that are classes of the last
    task, both in percent."""
    predictions = [learner.predict(task.test.x) for task in stream]
    hits = [(p == task.test.y).double() for p, task in zip(predictions, stream, strict=True)]
    on_last_task = torch.isin(torch.cat(predictions), torch.tensor(stream[-1].classes)).double()
    return [100 * each.mean().item() for each in hits], 100 * on_last_task.mean().item()


def first_images(stream: Stream) -> Images:
    """Return the first test images of each class."""
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
    """Place the images by the learner's features, with the classes it predicts."""
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
    """Make a map of these images of the stream."""
    return Map(
        task=len(stream),
        class_names=stream.class_names,
        labels=tuple(images.y.tolist()),
        images=tuple(map(picture, images.x)),
        panels=tuple(panels),
        biased_phi=measured,
    )


def earlier_map(path: Path) -> Map | None:
    """Load an earlier map. A damaged one counts as none, because it can be made again."""
    try:
        return maps.load(path)
    except UserError:
        return None
