"""How good are the models that `bnt learn` makes? Four folders of CIFAR-10 photographs, learned one
after the other, against plain training.

    python benchmarks/teach.py --data DIR --out FOLDER --seeds 5

DIR holds `cifar-10-batches-bin`. The folders are written as an engineer might have them: 200
pictures of each class, a third of them of other sizes, and five odd ones. Every model is trained by
`bnt learn`, and its accuracy computed anew, in plain torch, on 200 official test images of each
class. What is done is kept in FOLDER, so the command can be repeated to go on; `--parts` selects.
At the default size a seed takes half an hour of one core; with `--image-size 16 --width 8
--blocks 1 --stages 3 --steps 150` a few minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from bntricks import Model
from bntricks.cli.console import markdown
from bntricks.files import write_atomically
from bntricks.model.samples import gather
from bntricks.networks.options import NetworkOptions
from bntricks.networks.registry import build_network
from bntricks.norm import mode
from bntricks.report.statistics import estimate
from bntricks.report.verdicts import FEWEST_SEEDS
from bntricks.seeds import Generators
from bntricks.streams import View
from bntricks.streams.tasks import channel_moments
from bntricks.training.learner import Learner

FOLDERS = (("airplane", "cat", "ship"), ("dog", "truck"), ("frog", "horse"), ("bird", "deer"))
CLASSES = tuple(name for folder in FOLDERS for name in folder)
PICTURES, TESTS = 200, 200
"""Of each class."""
STEPS, BATCH, HELD_OUT = 600, 64, 0.2
"""Of a folder, as `bnt learn` has them by default."""
SIZES = {"image-size": 32, "width": 16, "blocks": 1, "stages": 4, "steps": STEPS}
"""And these."""
EVERYTHING, FEW = 2000, 20 * len(CLASSES)
"""Images a memory holds: all there are, or 20 of each class."""


def records(folder: Path, *names: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    raw = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
    return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0]


def official(data: Path) -> tuple[list[Any], list[Any]]:
    """Pictures and test images of each of the classes, in their order."""
    folder = data / "cifar-10-batches-bin"
    names = (folder / "batches.meta.txt").read_text().split()
    labels = [names.index(name) for name in CLASSES]
    x, y = records(folder, "data_batch_1.bin", "data_batch_2.bin")
    tests, answers = records(folder, "test_batch.bin")
    return [x[y == k] for k in labels], [tests[answers == k][:TESTS] for k in labels]


def write_folders(pictures: Sequence[Any], photos: Path) -> None:
    """Folders 1 to 4, and all classes in one. The first has 605 pictures, of which 484 are trained
    on: fifteen batches of 32, and four pictures more."""
    if photos.exists():
        return
    partial = photos.with_name("photos.partial")  # of a process that was killed
    shutil.rmtree(partial, ignore_errors=True)
    for number, folder in enumerate(FOLDERS, start=1):
        for name in folder:
            own = pictures[CLASSES.index(name)]
            for place in (partial / str(number) / name, partial / "all" / name):
                place.mkdir(parents=True)
                for index, x in enumerate(own[:PICTURES]):
                    picture = Image.fromarray(x.transpose(1, 2, 0))
                    if index % 3 == 0:
                        picture = picture.resize(((48, 48), (64, 40))[index % 2])
                    picture.save(place / f"{index:03}.png")
                if name == "airplane":
                    for index, kind in enumerate(("L", "P", "LA", "RGBA", "CMYK")):
                        odd = Image.fromarray(own[PICTURES + index].transpose(1, 2, 0))
                        odd.convert(kind).save(place / f"odd {index}.{'tif' if index else 'png'}")
    partial.rename(photos)


def accuracy(net: nn.Module, view: View, tests: Sequence[Any], size: int) -> list[float]:
    """Of each class, in percent, in plain torch."""
    mean, std = (torch.tensor(each)[:, None, None] for each in (view.mean, view.std))
    found = []
    with mode(net, training=False), torch.inference_mode():
        for label, images in enumerate(tests):
            x = shrunk(torch.from_numpy(images), size).float() / 255
            found.append(100 * (net((x - mean) / std).argmax(1) == label).double().mean().item())
    return found


def shrunk(x: Tensor, size: int) -> Tensor:
    return x if size == x.shape[-1] else F.adaptive_avg_pool2d(x.float(), size).round().byte()


def bnt_learn(folder: Path, model: Path, *options: str) -> float:
    """The command's CPU time in seconds."""
    command = [sys.executable, "-m", "bntricks", "learn", str(folder), "--into", str(model)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, *options, "--json"], stdout=subprocess.DEVNULL)
    if done.returncode == 1:  # the lesson cost old classes, which is what is measured here
        subprocess.run([*command[:3], "accept", str(model)], check=True)
    else:
        done.check_returncode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Bench:
    """The parts of the experiment, each a function of a seed that returns plain values."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.photos = options, options.out / "photos"
        pictures, self.tests = official(options.data)
        write_folders(pictures, self.photos)
        names = ("image_size", "width", "blocks", "stages")
        self.network = [f"--{n.replace('_', '-')}={getattr(options, n)}" for n in names]

    def parts(self) -> dict[str, Callable[[int], dict[str, Any]]]:
        return {
            "plain": self.plain,
            "everything": lambda seed: self.chain(seed, EVERYTHING),
            "at once": self.at_once,
            "few": lambda seed: self.chain(seed, FEW),
            "few, unbalanced batches": lambda seed: self.chain(seed, FEW, "--method=er-even"),
            "last batch": self.last_batch,
        }

    def measured(self, model: Model) -> list[float]:
        """Accuracy on each class the model knows, or is about to."""
        names = model.classes or FOLDERS[0]
        assert isinstance(model.view, View)
        tests = [self.tests[CLASSES.index(name)] for name in names]
        return accuracy(model.net, model.view, tests, self.options.image_size)

    def learn(self, folder: str, steps: int, *new: str) -> tuple[Model, float]:
        """What `bnt learn` makes in about so many steps, and its CPU time."""
        model = self.options.out / "model.safetensors"
        if new:
            model.unlink(missing_ok=True)
        images = len(gather(self.photos / folder, size=8, held_out=HELD_OUT).train)
        epochs = [] if steps == STEPS else [f"--epochs={round(steps * BATCH / images)}"]
        seconds = bnt_learn(self.photos / folder, model, *new, *epochs)
        return Model.load(model), seconds

    def chain(self, seed: int, memory: int, *more: str) -> dict[str, Any]:
        """The four folders, one after the other."""
        new = [*self.network, f"--memory={memory}", f"--seed={seed}", *more]
        rows, seconds = [], []
        for number in range(1, len(FOLDERS) + 1):
            model, cpu = self.learn(str(number), self.options.steps, *([] if rows else new))
            rows.append(self.measured(model))
            seconds.append(cpu)
        return {"accuracy": rows, "seconds": seconds}

    def at_once(self, seed: int) -> dict[str, Any]:
        """All classes at once, in as many steps as the four commands take together."""
        new = [*self.network, f"--seed={seed}"]
        model, cpu = self.learn("all", len(FOLDERS) * self.options.steps, *new)
        return {"accuracy": [self.measured(model)], "seconds": [cpu]}

    def plain(self, seed: int) -> dict[str, Any]:
        """The first folder by a loop as anyone would write it: the same network, plain SGD and
        AdamW, all 605 pictures with crops and flips, no test images held out."""
        samples = gather(self.photos / "1", size=self.options.image_size).train
        return {name: self._plain(samples.x, samples.y, seed, name) for name in ("sgd", "adamw")}

    def _plain(self, x: Tensor, y: Tensor, seed: int, name: str) -> list[float]:
        shape = {n: getattr(self.options, n) for n in ("width", "blocks", "stages")}
        net = build_network(
            NetworkOptions(**shape), x.shape[1:], 3, Generators.of(seed).init
        ).train()
        view = View(*channel_moments(x), pad=x.shape[-1] // 8, flip=True)
        generator = torch.Generator().manual_seed(seed)
        steps = 2 * self.options.steps  # of 32 pictures: as many as the command sees in steps of 64
        optimiser: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
        scheduler: Any = None
        if name == "adamw":
            optimiser = torch.optim.AdamW(net.parameters(), lr=0.003)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.003, total_steps=steps)
        done = 0
        while done < steps:
            for ids in torch.randperm(len(y), generator=generator).split(32):
                optimiser.zero_grad()
                F.cross_entropy(net(view(x[ids], generator)), y[ids]).backward()
                optimiser.step()
                done += 1
                if scheduler is not None and done < steps:
                    scheduler.step()
                if done == steps:
                    break
        return accuracy(net, view, self.tests[:3], self.options.image_size)

    def last_batch(self, seed: int) -> dict[str, Any]:
        """The first folder by the paper's protocol, as `bnt learn` had it: accuracy before and
        after the batch of four pictures that ends each of the last five epochs."""
        samples = gather(self.photos / "1", size=self.options.image_size, held_out=0.2)
        shape = {n: getattr(self.options, n) for n in ("width", "blocks", "stages")}
        model = Model.create(
            samples,
            method="er-bnt",
            optimiser="sgd",
            schedule="constant",
            even_batches=False,
            batch=32,
            memory_batch=32,
            seed=seed,
            **shape,
        )
        observe, rows = Learner.observe, []

        def watched(learner: Learner, x: Tensor, y: Tensor, **how: Any) -> Tensor:
            last = how["horizon"] <= 5 * 16 and len(y) < 32
            before = fmean(self.measured(model)) if last else 0.0
            loss = observe(learner, x, y, **how)
            if last:
                rows.append((loss.item(), before, fmean(self.measured(model))))
            return loss

        Learner.observe = watched  # type: ignore[method-assign]
        try:
            by_class = {
                n: samples.train.x[samples.train.y == k] for k, n in enumerate(samples.names)
            }
            model.learn(by_class, held_out=0, epochs=-(-self.options.steps // 16))
        finally:
            Learner.observe = observe  # type: ignore[method-assign]
        return {"loss, before, after": rows}


BySeed = dict[str, float]


def shown_table(results: dict[str, dict[str, Any]]) -> str:
    """What is there, as a table."""

    def over_seeds(part: str, value: Callable[[Any], float]) -> BySeed:
        return {seed: value(each) for seed, each in sorted(results.get(part, {}).items())}

    def first(each: Any) -> float:
        return fmean(each["accuracy"][0])

    def final(each: Any) -> float:
        return fmean(each["accuracy"][-1])

    def old(each: Any) -> float:
        return fmean(each["accuracy"][-1][: len(FOLDERS[0])])

    plain = over_seeds("plain", lambda each: fmean(each["sgd"]))
    new, old_later = over_seeds("everything", first), over_seeds("everything", old)
    kept, at_once = over_seeds("everything", final), over_seeds("at once", final)
    few, without = (over_seeds(part, final) for part in ("few", "few, unbalanced batches"))
    rows = [
        row("first folder, plain loop, SGD", plain),
        row("first folder, plain loop, AdamW", over_seeds("plain", lambda e: fmean(e["adamw"]))),
        row("first folder, `bnt learn`", new),
        row("… minus plain SGD", minus(new, plain)),
        row("nine classes at once", at_once),
        row("four folders, memory of all images", kept),
        row("… minus at once", minus(kept, at_once)),
        row("… the first folder's classes", old_later),
        row("… minus what they were when new", minus(old_later, new)),
        row("four folders, 20 images a class", few),
        row("… with unbalanced batches", without),
        row("gain by balanced batches", minus(few, without)),
        row("… the first folder's classes", over_seeds("few", old)),
        row("… with unbalanced batches", over_seeds("few, unbalanced batches", old)),
        row("longest command, CPU s", over_seeds("everything", lambda e: max(e["seconds"]))),
    ]
    return markdown(["accuracy, %", "mean", "95% interval", "by seed"], rows)


def minus(these: BySeed, those: BySeed) -> BySeed:
    return {seed: value - those[seed] for seed, value in these.items() if seed in those}


def row(what: str, values: BySeed) -> list[str]:
    if not values:
        return [what, "–", "–", "–"]
    own = estimate(list(values.values()))
    interval = "–" if len(values) < FEWEST_SEEDS else f"{own.low:.1f} to {own.high:.1f}"
    return [what, f"{own.mean:.1f}", interval, ", ".join(f"{v:.1f}" for v in values.values())]


def resumed(path: Path, sizes: dict[str, int]) -> dict[str, Any]:
    """What is done, which must be of these sizes. Earlier results do not say: they are taken for
    those of the default sizes."""
    if not path.exists():
        return {"sizes": sizes}
    results: dict[str, Any] = {"sizes": SIZES, **json.loads(path.read_text())}
    if results["sizes"] != sizes:
        others = ", ".join(f"--{name} {size}" for name, size in results["sizes"].items())
        sys.exit(f"{path} has results of other sizes ({others}): give another --out")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", nargs="*", help="some parts by name [default: all]")
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    sizes = {name: getattr(options, name.replace("-", "_")) for name in SIZES}
    results = resumed(path, sizes)
    bench = Bench(options)
    parts = {n: p for n, p in bench.parts().items() if not options.parts or n in options.parts}
    for seed in range(options.seeds):
        for name, part in parts.items():
            if str(seed) not in results.setdefault(name, {}):
                results[name][str(seed)] = part(seed)
                write_atomically(path, json.dumps(results, indent=1).encode())
                print(f"{name}, seed {seed}: {results[name][str(seed)]}", file=sys.stderr)
    print(shown_table(results))


if __name__ == "__main__":
    main()
