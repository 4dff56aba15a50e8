"""A trunk small enough for any test, in the registry like a user's own, and models on it."""

import torch
from torch import nn

from bntricks import BACKBONES, Backbone, ImageInput, Model
from helpers.colours import pictures

INPUT = ImageInput(size=8, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
WIDTH = 12


@BACKBONES.named("tiny")
def tiny(trained=True):
    """Random weights, always the same; without them those of nobody."""
    torch.manual_seed(0 if trained else 1)
    net = nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1, bias=False),
        nn.BatchNorm2d(WIDTH, momentum=0.01),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(WIDTH, 7, bias=False),
    )
    return Backbone(net, INPUT, "MIT")


def begun(**how):
    return Model.create(backbone="tiny", **how)


def knowing(names, **how):
    """A model that learned these colours."""
    model = begun(memory=24, **how)
    model.learn({name: pictures(name) for name in names})
    return model
