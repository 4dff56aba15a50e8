"""Did a change of the code move a bit? Write down what the present code makes, change it, compare.

    python benchmarks/same_bits.py write before.json
    python benchmarks/same_bits.py check before.json
    python benchmarks/same_bits.py check before.json --only norms learn

Tiny runs of every method, normalisation, correction, optimiser, protocol, probe and reading; a run
that was interrupted and one of two processes; chains of `bnt learn`; the estimator; and a loop made
of the pieces. Of each: its folder's name, digests of network and memory, all it measured, and the
files it left, without times, dates, paths and versions. Only the public face is used, so the code
may change behind it. Bits are those of one machine: another CPU has others, so the file is not
kept. Takes some four minutes of one core.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from sklearn.datasets import load_digits
from torch import nn

import bntricks
from bntricks.cli import main as command_line

SHAPE = ["--width", "8", "--blocks", "1", "--stages", "2"]
NETWORK = ["--image-size", "8", *SHAPE]
RUN = ["--images-per-class", "33", "--epochs", "2", "--memory", "25", *NETWORK]
TIMES = {"seconds", "images_per_second", "peak_memory_mb", "finished"}
MADE_BY = {"versions", "numerics", "path", "checksum"}
"""What says when, where and by which code something was computed."""

NORM_OPTIONS = {
    "bn": ["", "--momentum 0.3", "--momentum 0"],
    "adab2n": ["", "--kappa 0.9 --lambda-norm 1", "--as-published"],
    "brn": ["", "--momentum 0.3"],
    "cn": ["", "--groups 2 --momentum 0.2"],
    "gn": ["", "--groups 2"],
}
OPTIMISERS = {
    "sgd": ["--lr 0.06", "--weight-decay 1e-3", "--clip 0.5", "--even-batches --batch 25"],
    "sgdm": ["", "--sgd-momentum 0.5 --weight-decay 1e-3"],
    "adam": ["--lr 0.001", "--lr 0.001 --weight-decay 1e-2"],
    "adamw": ["--lr 0.001 --weight-decay 1e-2 --clip 1"],
}
VARIANTS = {
    "methods": [
        "cls-er --reg 0.3 --plastic 0.8 --stable 0.2 --keep 0.99",
        "cls-er --norm cn",
        "der-bnt --alpha 0.5",
        "der++ --alpha 0.5 --beta 1",
        "er --seed 1",
        "er-bnt --balance ratio",
        "er-bnt --batch 16 --memory-batch 48 --augment none",
        "er-bnt --seed 1 --track every-step",
        "er-even-bnt --mixup 0",
        "gem --margin 0.1",
        "icarl-bnt --delta 0.01",
        "lwf --alpha 2 --decay 0",
    ],
    "as published": [f"{name} --as-published" for name in ("icarl-bnt", "gss", "lwf", "er")],
    "corrections": [
        *(f"er-bnt --correct {name}" for name in ("wa", "wa-eval", "bic", "il2m", "prior")),
        *(f"{name} --correct wa" for name in ("der++", "er-ace", "cls-er", "lwf", "sgd")),
        "er --correct bic --norm adab2n",
    ],
    "heads": [
        *(f"{name} --head cosine" for name in ("er-bnt", "der++", "icarl-bnt", "lwf", "gem")),
        "er --head cosine --correct bic",
        "er-even-bnt --head cosine --net mlp",
    ],
    "recalibrate": [
        *(f"{name} --recalibrate memory" for name in ("er", "er-bnt", "der++", "er-ace")),
        "er --recalibrate memory --norm cn",
        "er --recalibrate memory --correct wa",
    ],
    "schedules": [
        *(f"er-bnt --schedule {name}" for name in ("cosine", "steps", "one-cycle")),
        "der++-bnt --schedule one-cycle --optimiser adamw --lr 0.003",
    ],
    "networks": [
        "er-bnt --net resnet18 --width 4 --blocks 2 --stages 3",
        "er-bnt --net resnet32 --epochs 1",
        "er-bnt --net mlp",
        "gss --net mlp",
        "er-bnt --precision bf16",
        "er-bnt --threads 2",
    ],
    "protocols": [
        *(f"{name} --blurry 0.2" for name in ("er-bnt", "der++", "sgd")),
        "er-bnt --validation 0.2",
        "er-bnt --classes-per-task 5",
        "er-bnt --first 4 --increment 3 --class-order 1993",
        "er-bnt --class-order 9,8,7,6,5,4,3,2,1,0",
        "er-bnt --tasks 0,1 --tasks 2,3,4 --tasks 5,6,7,8,9",
        'er --tasks ["3","5","0"] --tasks 1,2,4,6 --tasks 9,8,7',
        "er-bnt --stream seq-fashion --image-size 14",
        "joint --stream folder --data photos --classes-per-task 3 --held-out 0.3",
        "er-bnt --stream folder --data photos --first 4 --increment 1",
    ],
    "readings": [
        *(f"{name} --readings" for name in ("er", "er-bnt", "der++", "icarl", "sgd", "lwf")),
        "er --readings --norm cn",
        "er-cur+buf --readings --track every-step",
        "er-track-memory --correct prior --readings",
    ],
    "probes": [
        *(f"er-bnt --probe {name} --save" for name in ("phi", "statistics", "overlap")),
        "er --probe phi --correct prior",
        "icarl-bnt --probe phi --norm cn",
        "er-bnt --save-every-task --epoch-accuracy --log csv",
        "cls-er --save --epoch-accuracy",
        "fdr --save",
    ],
}
LEARN = {
    "er-even-bnt": "",
    "er-bnt": "--optimiser sgd --schedule constant --augment none --seed 3",
    "icarl-bnt": "--delta 0.001",
    "der++": "--batch 16 --lr 0.01",
    "a-gem": "--tasks 4",
    "lwf": "--schedule constant",
    "gss": "--optimiser sgd",
}
METHOD = """
from bntricks import BM, Bt, Method, Reservoir, bn_tricks, ce, loss, method

@loss("Norm", features=True)
def length(read):
    return read.features.square().mean()

@method("mine", title="Mine")
def mine(weight: float = 0.5) -> Method:
    updates = [ce(Bt | BM) + weight * ce(BM) + 0.01 * length(BM)]
    return bn_tricks(Method(updates=updates, memory=Reservoir()))
"""
NETS = """
import torch
from torch import nn

def build():
    torch.manual_seed(5)
    body = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten())
    return nn.Sequential(body, nn.Linear(216, 2))
"""


def bnt(*arguments: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed; in this process, for the time it saves."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["bnt", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Cyclopts application invoked")
        try:
            command_line()
        except SystemExit as end:
            code = int(end.code or 0)
    for stream in (out, err):
        stream.flush()
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore


def answer(*arguments: str) -> Any:
    """What a command prints as JSON, or, of a command that refuses, its last line."""
    code, out, err = bnt(*arguments, "--json")
    return json.loads(out) if code == 0 else {"refused": " ".join(err.split()), "code": code}


def run(method: str, *options: str) -> dict[str, Any]:
    """A run in a folder of its own, so that no other is its namesake. Options given here come
    instead of those that all have."""
    common = dict(zip(RUN[::2], RUN[1::2], strict=True))
    common.setdefault("--stream", "seq-digits")
    usual = [word for pair in common.items() if pair[0] not in options for word in pair]
    with tempfile.TemporaryDirectory() as out:
        record = answer("run", "--method", method, *usual, *options, "--out", out)
        return record if "refused" in record else made(record)


def made(record: dict[str, Any]) -> dict[str, Any]:
    """What a run has come to."""
    folder = Path(record["path"])
    files = {path.name: contents(path) for path in sorted(folder.iterdir()) if path.is_file()}
    kept = masked(record)
    digests = {key: digest(value) for key, value in kept.items()}
    told = {key: record[key] for key in ("acc", "bwt", "digest")}
    return {"name": folder.name, "files": files, "keys": sorted(record), "values": digests} | told


def contents(path: Path) -> Any:
    """A digest of what a file says, whenever and wherever it was written."""
    if path.suffix == ".safetensors":
        return model(path)
    if path.suffix == ".jsonl":
        return digest([masked(json.loads(line)) for line in path.read_text().splitlines()])
    if path.suffix == ".json":
        return digest({**masked(json.loads(path.read_text())), "data": None})
    return hashlib.sha256(path.read_bytes()).hexdigest()


def model(path: Path) -> dict[str, str]:
    """Digests of a model file's tensors, and of what it says about itself."""
    tensors = hashlib.sha256()
    with safe_open(str(path), "pt") as file:
        about = file.metadata() or {}
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name).contiguous()
            tensors.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            tensors.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    said = {key: masked(json.loads(text)) for key, text in sorted(about.items())}
    return {"tensors": tensors.hexdigest(), "about": digest(said)}


def masked(value: Any) -> Any:
    """Without what is another one tomorrow."""
    if isinstance(value, dict):
        kept = ((key, each) for key, each in value.items() if key not in TIMES | MADE_BY)
        return {key: masked(each) for key, each in kept if key != "date"}
    if isinstance(value, list):
        return [masked(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"\b20\d\d-\d\d-\d\d([T ][\d:.+Z]+)?", "DATE", value)
    return value


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def digest_of(*tensors: Any) -> str:
    return hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in tensors)).hexdigest()[:16]


def chain(method: str, options: str) -> dict[str, Any]:
    """A model that is made here."""
    new = ["--method", method, "--memory", "20", *NETWORK, *options.split()]
    return dict(commands(method, ["--into", f"{method}.safetensors", "--epochs", "2"], new))


def adopted() -> dict[str, Any]:
    """A model around a network that was not made here."""
    into = ["--into", "adopted.safetensors", "--epochs", "2", "--net", "nets:build"]
    new = ["--classes", "old 0,old 1", "--old-images", "photos/old", "--memory", "24"]
    new += ["--image-size", "8", "--mean", "0.5", "--std", "0.3", "--batch", "8"]
    return dict(commands("adopted", into, new))


def commands(name: str, into: list[str], new: list[str]) -> Iterator[tuple[str, Any]]:
    """New, extended, known classes taught more, one renamed, one removed, and extended again; and
    what the model says in between."""
    path, recalibrated = Path(f"{name}.safetensors"), Path(f"{name}-recalibrated.safetensors")
    tests = ["--data", "own tests" if "--old-images" in new else "tests"]
    net = into[into.index("--net") :] if "--net" in into else []
    steps = {
        "new": ["learn", "photos/0", *into, *new],
        "extended": ["learn", "photos/1", *into, "--held-out", "0.3"],
        "taught more": ["learn", "photos/more", *into, "--more", "--lr", "0.01"],
        "renamed": ["rename-class", str(path), "digit 1", "one", *net],
        "removed": ["remove-class", str(path), "digit 2", *net],
        "again": ["learn", "photos/2", *into],
    }
    for title, words in steps.items():
        named = words[0].endswith("-class")
        said = bnt(*words) if named else masked(answer(*words))
        yield title, {"said": said, **model(path)}
    for title, words in {
        "predicted": ["predict", str(path), "photos/2", "--probabilities", "--top", "2", *net],
        "unknown": ["predict", str(path), "photos/1", "--unknown", "photos/3", *net],
        "diagnosed": ["diagnose", str(path), *tests, *net],
        "recalibrated": ["recalibrate", str(path), *tests, *net, "--out", str(recalibrated)],
        "without memory": ["learn", "photos/3", *into, "--without-memory"],
    }.items():
        said = masked(answer(*words))
        yield title, said if "refused" in said else digest(said)
    yield "last", [model(p) for p in (path, recalibrated) if p.exists()]


def write_scenery() -> None:
    """Photos to learn from in the current folder, and code of a user's own."""
    x, y = load_digits(return_X_y=True)

    def photos(folder: str, label: int, images: Any, name: str) -> None:
        own = Path(folder) / f"{name} {label}"
        own.mkdir(parents=True)
        for index, pixels in enumerate(images):
            image = (pixels.reshape(8, 8) * 16).clip(0, 255).astype(np.uint8)
            Image.fromarray(image).convert("RGB").save(own / f"{index}.png")

    for label in range(8):
        own = x[y == label]
        photos(f"photos/{label // 2}", label, own[:30], "digit")
        if label in (1, 2):
            photos("photos/more", label, own[30:45], "digit")
    for label in (0, 1):
        photos("photos/old", label, x[y == 8 + label][:25], "old")
    for label in (0, 1, 3, 4, 5):
        photos("tests", label, x[y == label][60:80], "digit")
    Path("tests/digit 1").rename("tests/one")
    for folder, parts in {"folder": "photos/[012]/*", "own tests": "tests/*"}.items():
        Path(folder).mkdir()
        for path in Path().glob(parts):
            (Path(folder) / path.name).symlink_to(path.absolute())
    for path in Path("photos/old").iterdir():
        (Path("own tests") / path.name).symlink_to(path.absolute())
    Path("own.py").write_text(METHOD)
    Path("nets.py").write_text(NETS)


def estimator(method: str, *, images: bool = False, **options: Any) -> dict[str, str]:
    """What it answers after each call, and its network in the end."""
    x, y = load_digits(return_X_y=True)
    if images:
        x = (x.reshape(-1, 1, 8, 8) * 16).clip(0, 255).astype(np.uint8)
    given = {"random_state": 0, "epochs": 2, "memory": 40, "width": 8 if images else 16}
    model = bntricks.IncrementalClassifier(method, **{**given, **options})
    answers = []
    for first in (0, 4, 7):
        own = (y >= first) & (y < first + 4)
        model.partial_fit(x[own][::2], y[own][::2])
        answers.append(digest_of(model.predict_proba(x[:400])))
    network = digest_of(*model.net_.state_dict().values())
    model.set_params(lr=0.01).fit(x[:300], y[:300])
    return {"answers": digest(answers), "network": network, "fit": digest_of(model.predict(x))}


ESTIMATORS: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: estimator(name) for name in ("er-bnt", "icarl-bnt", "lwf", "fdr")},
    "gem, three tasks": lambda: estimator("gem", tasks=5),
    "der++, its hyper-parameters": lambda: estimator("der++", hyper={"alpha": 0.5}, batch=16),
    "images": lambda: estimator("er-even-bnt", images=True, blocks=1, stages=2, augment=True),
}


def own_loop() -> dict[str, Any]:
    """A loop made of the pieces, and a learner that is told what to do."""
    torch.manual_seed(0)
    x, y = map(torch.as_tensor, load_digits(return_X_y=True))
    x, answers = x.float() / 16, {}
    net = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))
    memory = bntricks.Memory(30, insertion=torch.Generator(), sampling=torch.Generator())
    optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
    for new, old in (([0, 1], []), ([2, 3], [0, 1]), ([4, 5], [0, 1, 2, 3])):
        rows = torch.isin(y, torch.tensor(new)).nonzero().flatten()[:120]
        for part in rows.split(30):
            current, replay = bntricks.Batch(x[part], y[part]), memory.sample(30)
            bntricks.update_ema(net, bntricks.balance(current, replay, new=new, old=old).x)
            with bntricks.frozen_ema(net):
                seen = [current] if replay is None else [current, replay]
                losses = [nn.functional.cross_entropy(net(each.x), each.y) for each in seen]
            optimiser.zero_grad()
            sum(losses).backward()
            optimiser.step()
            memory.add(current)
    answers["loop"] = digest_of(*net.state_dict().values())
    bntricks.recalibrate(net, [x[:200], x[200:400]])
    answers["recalibrated"] = digest_of(*net.state_dict().values())
    net.apply(lambda layer: hasattr(layer, "reset_parameters") and layer.reset_parameters())
    learner = bntricks.Learner(net, bntricks.make("der++-bnt"), memory=30, seed=2)
    for classes in ((0, 1), (2, 3)):
        rows = torch.isin(y, torch.tensor(classes))
        learner.begin(classes, x[rows], y[rows])
        for first in range(0, 90, 30):
            learner.observe(x[rows][first : first + 30], y[rows][first : first + 30])
        learner.end(x[rows], y[rows])
    return {**answers, "learner": digest_of(*net.state_dict().values())}


class Enough(Exception):
    """A run was stopped on purpose."""


def interrupted(method: str) -> dict[str, Any]:
    """A run that ends in the middle of its third task, and is resumed."""
    config = bntricks.Config(
        method=method, stream="seq-digits", images_per_class=33, epochs=2, memory=25,
        image_size=8, width=8, blocks=1, stages=2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as out:

        def stop(event: Any) -> None:
            if any(len(p.read_text().splitlines()) > 6 for p in Path(out).glob("*/log.jsonl")):
                raise Enough

        try:
            bntricks.run(config, out=out, checkpoint_seconds=0, sink=stop)
        except Enough:
            (folder,) = Path(out).iterdir()
            return made(answer("resume", str(folder)))
        raise AssertionError("the run was over before it could be stopped")


def two_processes() -> dict[str, Any]:
    """A run that is split, and normalised by the statistics of all."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += ["--standalone", "-m", "bntricks", "run", *RUN, "--stream", "seq-digits"]
        command += ["--synchronised", "--out", out, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return made(json.loads(done.stdout.splitlines()[-1]))


def everything() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is made, by name, and how."""
    for each in answer("methods"):
        yield f"methods/{each['name']}", lambda name=each["name"]: run(name)
    for norm in answer("norms"):
        name = norm["name"]
        for text in NORM_OPTIONS.get(name, [""]):
            words = ["--norm", name, *text.split()]
            yield f"norms/er {name} {text}", lambda words=words: run("er", *words)
        for method in ("er-bnt", "icarl-bnt"):
            words = ["--norm", name]
            yield f"norms/{method} {name}", lambda m=method, words=words: run(m, *words)
    for name, variants in OPTIMISERS.items():
        for text in variants:
            words = ["--optimiser", name, *text.split()]
            yield f"optimisers/{name} {text}", lambda words=words: run("er-bnt", *words)
    for title, variants in VARIANTS.items():
        for text in variants:
            words = text.replace("photos", "folder").split()
            yield f"{title}/{text}", lambda words=words: run(*words)
    for method in ("er-bnt", "icarl", "lwf"):
        yield f"interrupted/{method}", lambda method=method: interrupted(method)
    yield "distributed/two processes", two_processes
    for method, text in LEARN.items():
        yield f"learn/{method}", lambda m=method, text=text: chain(m, text)
    yield "learn/adopted", adopted
    for title, make in ESTIMATORS.items():
        yield f"estimator/{title}", make
    yield "pieces/own loop", own_loop
    # Last, because what is imported stays.
    yield "own code/mine", lambda: run("mine", "--import", "own.py", "--weight", "0.3")


def results(only: list[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name, chdir(name):
        os.environ["BNT_CACHE"] = str(Path(name) / "cache")
        sys.path.insert(0, name)
        write_scenery()
        found = {}
        for title, make in everything():
            if not only or any(title.startswith(each) for each in only):
                print(f"\r\033[K{title}", end="", file=sys.stderr, flush=True)
                found[title] = make()
        print("\r\033[K", end="", file=sys.stderr)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from differences(before.get(key), now.get(key), f"{where}/{key}")
    elif before != now:
        yield f"{where}: {str(before)[:200]} is now {str(now)[:200]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=("write", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="names, or how they begin")
    arguments = parser.parse_args()
    file, only = arguments.file.absolute(), arguments.only
    before = json.loads(file.read_text()) if arguments.do == "check" else {}
    now = results(only)
    if arguments.do == "write":
        file.write_text(json.dumps(now, indent=1))
        return
    if only:
        before = {key: value for key, value in before.items() if key.startswith(tuple(only))}
    moved = list(differences(before, now))
    print("\n".join(moved) or f"the same bits, {len(now)} times")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
