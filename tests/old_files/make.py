"""Make the files of one version, for later versions to read:

    python tests/old_files/make.py tests/old_files/0.2.0

Run it with the code whose files are wanted. Files of earlier versions are never made again: what
they are worth is that a current version did not write them.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from bntricks import Config, Model, View, run
from bntricks.runs.folder import resume

TINY = {"stream": "seq-digits", "width": 4, "stages": 2, "blocks": 1, "memory": 20}
RUNS = {
    "er-bnt": (Config(method="er-bnt", images_per_class=60, epochs=6, **TINY), {}),
    "er-cur+buf": (
        Config(method="er-cur+buf", seed=1, images_per_class=60, epochs=6, **TINY),
        {"readings": True, "probe": "phi", "epoch_accuracy": True, "save": "end", "log": ["csv"]},
    ),
}
"""A plain run, and one with everything that a run can write beside its results."""
INTERRUPTED = {
    "der++-bnt": (
        Config(
            method="der++-bnt", optimiser="adamw", lr=0.01, images_per_class=60, epochs=3, **TINY
        ),
        {},
    ),
    "er-cur+buf": (
        Config(method="er-cur+buf", seed=2, images_per_class=60, epochs=3, **TINY),
        {"readings": True, "probe": "phi", "epoch_accuracy": True},
    ),
}
"""Stored logits and an optimiser's state; readings, a probe, and twins of the network."""
STOPS_AT = {"task": 4, "epoch": 2}
VIEW = View(mean=(0.3,), std=(0.38,), pad=1)


def build() -> nn.Module:
    """Return the network of the adopted model, before it has learned."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(96, 2)),
    )


def digits() -> dict[str, torch.Tensor]:
    """Return scikit-learn's digits as uint8 images by class name."""
    bunch = load_digits()
    x = torch.tensor(bunch.images * 255 / 16).round().to(torch.uint8)[:, None]
    return {str(digit): x[torch.tensor(bunch.target) == digit] for digit in range(10)}


def samples() -> torch.Tensor:
    """Return images that the models have not seen, the last three of each digit they know."""
    images = digits()
    return torch.cat([images[name][-3:] for name in ("0", "1", "2")])


def created() -> Model:
    """Return a model that learned two digits, and then one more."""
    images = digits()
    first = {name: images[name][:30] for name in ("0", "1")}
    model = Model.create(first, image_size=8, width=4, blocks=1, stages=2, memory=12)
    model.learn(first, epochs=12)
    model.learn({"2": images["2"][:30]}, epochs=12)
    return model


def adopted() -> Model:
    """Return a model around a network that was trained by hand, with one class more."""
    images = digits()
    torch.manual_seed(0)
    net = build()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x = torch.cat([images[name][:40] for name in ("0", "1")])
    y = torch.arange(2).repeat_interleave(40)
    for _ in range(5):
        for rows in torch.randperm(len(y)).split(16):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(VIEW(x[rows])), y[rows]).backward()
            optimiser.step()
    old = {name: images[name][:6] for name in ("0", "1")}
    tests = {name: images[name][40:50] for name in ("0", "1")}
    model = Model.adopt(net, classes=["0", "1"], memory=old, test=tests, view=VIEW)
    model.learn({"2": images["2"][:30]}, epochs=12)
    return model


def interrupt(config: Config, how: dict, out: Path) -> Path:
    """Train a run up to a step of its fourth task, and stop it by Ctrl-C. Return its folder."""

    def stop(event: dict) -> None:
        if event["event"] == "epoch" and STOPS_AT.items() <= event.items():
            signal.raise_signal(signal.SIGINT)

    with suppress(KeyboardInterrupt):
        run(config, out=out, sink=stop, **how)
        raise RuntimeError("the run was not interrupted")
    (newest,) = out.glob("*/checkpoint.newest")
    return newest.parent


def make(folder: Path) -> None:
    """Write all files, and `expected.json` with what they must be read as."""
    folder.mkdir(parents=True)  # which must be new
    os.chdir(folder)  # so that no file names another place
    torch.set_num_threads(1)
    expected: dict[str, dict] = {"runs": {}, "interrupted": {}, "models": {}}
    for name, (config, how) in RUNS.items():
        record = run(config, out=Path("runs"), **how)
        expected["runs"][name] = {
            "folder": record.path.name,
            "acc": record.acc,
            "bwt": record.bwt,
            "accuracy": record.accuracy,
            "readings": {reading: record.read_as(reading).acc for reading in record.readings or ()},
            "oracle_acc": record.phi and record.phi.oracle_acc,
        }
    for name, (config, how) in INTERRUPTED.items():
        out = Path("interrupted") / name
        left = interrupt(config, how, out)
        shutil.copytree(out, "finished")
        record = resume(Path("finished") / left.name)
        expected["interrupted"][name] = {
            "folder": left.name,
            "accuracy": record.accuracy,
            "digest": record.digest,
        }
        shutil.rmtree("finished")
    Path("models").mkdir()
    for name, make_model in (("created", created), ("adopted", adopted)):
        model = make_model()
        model.save(Path("models") / f"{name}.safetensors")
        expected["models"][name] = {
            "classes": model.classes,
            "answers": model.predict(samples()),
            "probabilities": model.predict_proba(samples()).tolist(),
        }
    for name in ("lock", "checkpoint.before"):  # of which a clone has no use
        for path in Path().rglob(name):
            path.unlink()
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
