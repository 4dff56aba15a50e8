"""A tiny learner of any method in the middle of its third task."""

import torch

from bntricks.methods import make
from bntricks.networks.resnet import ResNet
from bntricks.streams.augment import View
from bntricks.training.learner import Learner

CLASSES, SIDE, BATCH = 6, 8, 6
VIEW = View((0.5,) * 3, (0.25,) * 3, pad=1, flip=True)


def images(task, count=12):
    generator = torch.Generator().manual_seed(task)
    x = torch.randint(256, (count, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
    return x, 2 * (task - 1) + torch.arange(count) % 2


def batches(task):
    x, y = images(task)
    return [(x[ids], y[ids], ids) for ids in torch.arange(len(y)).split(BATCH)]


def third_task(name, *, steps=1, device=None):
    """A learner that has learned two tasks and made so many steps of the third."""
    torch.manual_seed(0)
    learner = Learner(
        ResNet(CLASSES, width=2, blocks=1, stages=2).to(memory_format=torch.channels_last),
        make(name),
        memory=12,
        lr=0.01,
        view=VIEW,
        batch=BATCH,
        memory_batch=BATCH,
        tasks=3,
        epochs=1,
        device=device,
    )
    for task in (1, 2, 3):
        x, y = images(task)
        learner.begin([2 * task - 2, 2 * task - 1], x, y)
        for x_batch, y_batch, ids in batches(task)[: steps if task == 3 else None]:
            learner.observe(x_batch, y_batch, ids=ids)
        if task < 3:
            learner.end(x, y)
    return learner
