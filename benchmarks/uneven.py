"""How well is a small class learned beside large ones? Folders of 200, 20 and 200 CIFAR-10
photographs, learned by `Model.learn` and by a plain loop with a weighted sampler.

    python benchmarks/uneven.py --data DIR

DIR holds CIFAR-10 in its binary layout. A draw decides classes and images; accuracy is on 400
official test images of each class. Both train the same network on the same images (a fifth is held
out), for about 600 steps of 64 at a rate of 0.003 that rises and falls, with crops and flips; the
plain loop has no mixup.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks import Model
from bntricks.cli.console import markdown
from bntricks.model.samples import testing
from bntricks.networks.resnet import ResNet
from bntricks.streams import View
from bntricks.streams.tasks import channel_moments

COUNTS, STEPS, BATCH, RATE = (200, 20, 200), 600, 64, 3e-3
FILES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pixels = [read(arguments.data / name) for name in FILES]
    train = [torch.cat([x[y == k] for x, y in pixels[:-1]]) for k in range(10)]
    test = [pixels[-1][0][pixels[-1][1] == k][:400] for k in range(10)]
    rows = []
    for draw in range(arguments.draws):
        random = np.random.default_rng(draw)
        classes = random.permutation(10)[:3].tolist()
        given = [
            train[k][random.permutation(5000)[:n]] for k, n in zip(classes, COUNTS, strict=True)
        ]
        tests = [test[k] for k in classes]
        for name, learned in (("`Model.learn`", by_model), ("plain loop", by_plain_loop)):
            own = learned(given, tests, draw)
            rows.append([draw, name, *(f"{rate:.1f}" for rate in own), f"{np.mean(own):.1f}"])
    print(markdown(["draw", "trained by", "200", "20", "200", "mean"], rows))


def read(path: Path) -> tuple[Tensor, Tensor]:
    raw = torch.from_numpy(np.fromfile(path, np.uint8).reshape(-1, 3073))
    half = F.avg_pool2d(raw[:, 1:].reshape(-1, 3, 32, 32).float(), 2).round()
    return half.to(torch.uint8), raw[:, 0].long()


def by_model(given: list[Tensor], tests: list[Tensor], seed: int) -> list[float]:
    images = {str(k): x for k, x in enumerate(given)}
    model = Model.create(images, image_size=16, seed=seed)
    model.learn(images)
    return [100 * model.predict(x).count(str(k)) / len(x) for k, x in enumerate(tests)]


def by_plain_loop(given: list[Tensor], tests: list[Tensor], seed: int) -> list[float]:
    torch.manual_seed(seed)
    parts = [x[~testing(len(x), 0.2)] for x in given]
    x, y = torch.cat(parts), torch.arange(3).repeat_interleave(torch.tensor(list(map(len, parts))))
    view = View(*channel_moments(x), pad=2, flip=True)
    net, generator = ResNet(3, width=16, blocks=1, stages=4), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, total_steps=STEPS, pct_start=0.1
    )
    weights = 1 / torch.bincount(y)[y].double()
    for _ in range(STEPS):
        ids = torch.multinomial(weights, BATCH, replacement=True, generator=generator)
        loss = F.cross_entropy(net(view(x[ids], generator)), y[ids])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    net.eval()
    with torch.no_grad():
        answers = [net(view(each, None)).argmax(1) for each in tests]
    return [100 * float((own == k).float().mean()) for k, own in enumerate(answers)]


if __name__ == "__main__":
    main()
