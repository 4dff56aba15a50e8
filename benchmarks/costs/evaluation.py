"""Evaluation, and the choice of iCaRL's exemplars, against a plain loop over the same images."""

from __future__ import annotations

import copy

import torch

from bntricks.batch import Batch
from bntricks.methods import make
from bntricks.networks.registry import channels_last
from bntricks.networks.resnet import ResNet
from bntricks.recipes.policies import Herding
from bntricks.streams import OnProgress
from bntricks.training.learner import Learner
from costs.plain_pytorch import plain_evaluation
from costs.settings import BATCH, CAPACITY, CLASSES, VIEW, Settings, random_images
from costs.timing import Row, interleaved


def evaluation(settings: Settings, report: OnProgress) -> list[Row]:
    """`Learner.scores` on raw images, against the plain loop on images it need not normalise."""
    learner, plain = learner_and_plain_copy("er-bnt", settings)
    x = random_images(settings.batches * BATCH, settings.side)
    workloads = {
        "plain": plain_evaluation(plain, VIEW(x).contiguous()),
        "scores": lambda: learner.scores(x),
    }
    seconds = interleaved(workloads, settings.rounds, report, what="evaluation")
    ratio = seconds["scores"] / seconds["plain"]
    return [Row.of("evaluation", "scores", ratio, "× a plain eval loop", bound=0.85)]


def herding(settings: Settings, report: OnProgress) -> list[Row]:
    """Features and choice of exemplars of two classes, against the plain loop that makes the
    features."""
    learner, plain = learner_and_plain_copy("icarl", settings)
    x = random_images(settings.batches * BATCH, settings.side)
    y = torch.arange(len(x)) % 2
    learner.begin([0, 1], x, y)
    policy, samples = Herding(), Batch(x, y, ids=torch.arange(len(x)))
    workloads = {
        "plain": plain_evaluation(plain.features, VIEW(x).contiguous()),
        "herding": lambda: policy.update(learner.state, samples),
    }
    seconds = interleaved(workloads, settings.rounds, report, what="herding")
    note = f"{min(CAPACITY, len(x))} exemplars of {len(x)} images"
    ratio = seconds["herding"] / seconds["plain"]
    return [Row.of("herding", "icarl", ratio, "× a plain feature pass", note=note)]


def learner_and_plain_copy(name: str, settings: Settings) -> tuple[Learner, ResNet]:
    """A learner, and its network laid out in memory as PyTorch does it."""
    torch.manual_seed(0)
    plain = ResNet(CLASSES, width=settings.width).eval()
    net = channels_last(copy.deepcopy(plain))
    return Learner(net, make(name), memory=CAPACITY, view=VIEW, batch=BATCH), plain
