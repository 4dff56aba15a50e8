"""What is each choice in `bnt learn`'s recipe worth? The recipe, and the recipe with one thing
changed, on photographs, clothes and many small classes.

    python benchmarks/teach_choices.py --data DIR --out results.json --seeds 3

DIR holds CIFAR-10 and Tiny-ImageNet in their official layouts; Fashion-MNIST is part of the
package, and `--streams seq-fashion` needs no DIR. A seed decides the classes too. Four folders are
learned one after the other with a memory of 20 images a class, and accuracy is measured on the
official test images. Networks and images are small, so that a seed takes some ten minutes of one
core. What is done is kept in the file of results, so the command can be repeated to go on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from bntricks import Model
from bntricks.cli.console import markdown
from bntricks.errors import counted
from bntricks.files import write_atomically
from bntricks.report.statistics import estimate
from bntricks.report.verdicts import FEWEST_SEEDS
from bntricks.streams import Stream, open_stream
from bntricks.streams.sources.fashion import EMBEDDED

SIZE, STEPS, BATCH, MEMORY = 16, 300, 64, 20
"""The side of an image, steps a folder, images in a batch, stored images a class."""
NETWORK: dict[str, Any] = {"width": 16, "blocks": 1, "stages": 3}
STREAMS = {"seq-cifar10": 1, "seq-fashion": 1, "seq-tiny-imagenet": 4}
"""So many times three classes at first, and two in each later folder."""
IMAGES = 160
"""Of each class, as far as there are, to train on."""
CHOICES: dict[str, dict[str, Any]] = {
    "the recipe": {},
    "no mixup": {"hyper": {"mixup": 0.0}},
    "unbalanced batches (ER-Even)": {"method": "er-even"},
    "the paper's reservoir and two passes (ER-BNT)": {"method": "er-bnt"},
    "momentum SGD": {"optimiser": "sgdm", "lr": 0.05},
    "plain SGD": {"optimiser": "sgd"},
    "a constant rate": {"schedule": "constant"},
    "no crops and flips": {"augment": False},
    "two blocks a stage": {"blocks": 2},
}


def folders(name: str, data: Path | None, seed: int) -> Stream:
    """The four folders of a seed, as tasks."""
    times = STREAMS[name]
    stream = open_stream(
        name,
        data=EMBEDDED if name == "seq-fashion" else data,
        image_size=SIZE,
        images_per_class=IMAGES,
        class_order=seed + 1,
        first=3 * times,
        increment=2 * times,
    )
    return stream[:4]


def learn(stream: Stream, seed: int, choice: dict[str, Any]) -> list[float]:
    """Accuracy on all classes so far after each folder, in percent; each class counts the same."""
    model: Model | None = None
    accuracies = []
    classes = sum(len(task.classes) for task in stream)
    for index, task in enumerate(stream):
        images = by_class(stream, task.train.x, task.train.y)
        if model is None:
            how = {**NETWORK, "seed": seed, "memory": MEMORY * classes, **choice}
            model = Model.create(images, image_size=SIZE, **how)
        epochs = round(STEPS * BATCH / len(task.train))
        model.learn(images, epochs=epochs, held_out=0)
        own = [
            fmean(each == name for each in model.predict(x))
            for past in stream[: index + 1]
            for name, x in by_class(stream, past.test.x, past.test.y).items()
        ]
        accuracies.append(100 * fmean(own))
    return accuracies


def by_class(stream: Stream, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {stream.class_names[label]: x[y == label] for label in sorted(set(y.tolist()))}


def table(results: dict[str, dict[str, dict[str, list[float]]]], name: str) -> str:
    """Each choice on a stream: the first folder, all four, and the difference to the recipe."""
    rows = []
    for choice, by_seed in results[name].items():
        first = fmean(values[0] for values in by_seed.values())
        last = fmean(values[-1] for values in by_seed.values())
        recipe = results[name]["the recipe"]
        seeds = sorted(by_seed.keys() & recipe.keys())
        gain = estimate([by_seed[seed][-1] - recipe[seed][-1] for seed in seeds])
        known = choice != "the recipe" and len(seeds) >= FEWEST_SEEDS
        change = f"{gain.mean:+.1f} ({gain.low:.1f} to {gain.high:.1f})" if known else "–"
        rows.append([choice, f"{first:.1f}", f"{last:.1f}", change])
    seeds = sorted({seed for own in results[name].values() for seed in own})
    header = [
        f"{name}, {counted(len(seeds), 'seed')}",
        "first folder",
        "four folders",
        "difference",
    ]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the file of results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for seed in range(options.seeds):
        for name in options.streams:
            stream = folders(name, options.data, seed)
            for choice, how in CHOICES.items():
                own = results.setdefault(name, {}).setdefault(choice, {})
                if str(seed) not in own:
                    own[str(seed)] = learn(stream, seed, how)
                    write_atomically(options.out, f"{json.dumps(results, indent=1)}\n".encode())
                    print(f"{name}, {choice}, seed {seed}: {own[str(seed)]}", file=sys.stderr)
    print("\n\n".join(table(results, name) for name in results))


if __name__ == "__main__":
    main()
