"""A method, a network, a norm and a stream of your own in one file, for `--import my_method.py`.

bnt run --import my_method.py --method my-er-bnt --stream my-blobs --net my-net --norm my-norm
"""

import numpy as np
import torch
from torch import nn

from bntricks import (
    BM,
    NETWORKS,
    NORMS,
    Bt,
    Method,
    NotNegative,
    OpenOptions,
    Pass,
    Reservoir,
    Stream,
    StreamInfo,
    ce,
    from_arrays,
    loss,
    method,
    stream,
)


@loss("Confident")
def confident(p: Pass) -> torch.Tensor:
    """Scores of replayed images should be far apart: their mean entropy."""
    return -(p.logits.softmax(1) * p.logits.log_softmax(1)).sum(1).mean()


@method("my-er", title="My-ER", bnt=True)  # my-er-bnt too: its BN Tricks form
def my_er(weight: NotNegative = 0.1) -> Method:
    """ER that is confident about what it replays."""
    return Method(updates=[ce(Bt | BM) + weight * confident(BM)], memory=Reservoir())


@NORMS.named("my-norm")
def my_norm(channels: int) -> nn.Module:
    """BatchNorm with a short memory."""
    return nn.BatchNorm2d(channels, momentum=0.3)


@NETWORKS.named("my-net")
def my_net(shape, outputs, *, width, norm, **size) -> nn.Module:
    """One convolution."""
    layers = [nn.Conv2d(shape[0], width, 3), norm(width), nn.ReLU(), nn.AdaptiveAvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width, outputs))


@stream("my-blobs", summary="bright spots", tasks="2 × 2", image_size=8, memory=20, data="embedded")
def my_blobs(info: StreamInfo, options: OpenOptions) -> Stream:
    """Four classes: which corner of the image is bright. Options are applied to what it returns."""
    random = np.random.default_rng(0)
    x, y = random.integers(0, 128, (160, 8, 8), np.uint8), np.arange(160) % 4
    for image, label in zip(x, y, strict=True):
        top, left = 4 * (label // 2), 4 * (label % 2)
        image[top : top + 4, left : left + 4] += 100
    return from_arrays(x[:120], y[:120], x[120:], y[120:])
