"""Evaluation, and the choice of iCaRL's exemplars, against a plain loop over the same images."""

from __future__ import annotations

import copy

import torch

from bntricks.batch import Batch
from bntricks.bench.raw import raw_evaluation
from bntricks.bench.rounds import Report, Row, interleaved, row
from bntricks.bench.setting import BATCH, CLASSES, MEMORY, VIEW, Setting, images
from bntricks.methods import make
from bntricks.networks.resnet import ResNet
from bntricks.recipes.policies import Herding
from bntricks.training.learner import Learner


def evaluation(setting: Setting, report: Report) -> list[Row]:
    """`Learner.scores` on raw images, against the plain loop on images it need not normalise."""
    learner, plain = beside_each_other("er-bnt", setting)
    x = images(setting.batches * BATCH, setting.side)
    subjects = {
        "plain": raw_evaluation(plain, VIEW(x).contiguous()),
        "scores": lambda: learner.scores(x),
    }
    took = interleaved(subjects, setting.rounds, report, what="evaluation")
    ratio = took["scores"] / took["plain"]
    return [row("evaluation", "scores", ratio, "× a plain eval loop", bound=0.85)]


def herding(setting: Setting, report: Report) -> list[Row]:
    """Features and choice of exemplars of two classes, against the plain loop that makes the
    features."""
    learner, plain = beside_each_other("icarl", setting)
    x = images(setting.batches * BATCH, setting.side)
    y = torch.arange(len(x)) % 2
    learner.begin([0, 1], x, y)
    policy, samples = Herding(), Batch(x, y, ids=torch.arange(len(x)))
    subjects = {
        "plain": raw_evaluation(plain.features, VIEW(x).contiguous()),
        "herding": lambda: policy.update(learner.state, samples),
    }
    took = interleaved(subjects, setting.rounds, report, what="herding")
    note = f"{min(MEMORY, len(x))} exemplars of {len(x)} images"
    ratio = took["herding"] / took["plain"]
    return [row("herding", "icarl", ratio, "× a plain feature pass", note=note)]


def beside_each_other(name: str, setting: Setting) -> tuple[Learner, ResNet]:
    """A learner, and a copy of its network as PyTorch makes it."""
    torch.manual_seed(0)
    plain = ResNet(CLASSES, width=setting.width).eval()
    net = copy.deepcopy(plain).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Learner(net, make(name), memory=MEMORY, view=VIEW, batch=BATCH), plain
