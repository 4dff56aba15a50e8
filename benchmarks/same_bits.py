"""Did a change of the code move a bit? Write down what the present code makes, change it, compare.

    python benchmarks/same_bits.py write before.json
    python benchmarks/same_bits.py check before.json

A tiny run of every method (digests of network and memory, the folder's name, the record's keys),
chains of `bnt learn`, and the estimator. Bits are those of one machine: another CPU has others, so
the file is not kept. Takes some four minutes of one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from sklearn.datasets import load_digits

from bntricks import IncrementalClassifier

NETWORK = ["--image-size", "8", "--width", "8", "--blocks", "1", "--stages", "2"]
RUN = ["--stream", "seq-digits", "--images-per-class", "33", "--epochs", "2", *NETWORK]
VARIANTS = {
    "er-bnt, ratio": ["er-bnt", "--balance", "ratio"],
    "er-bnt, every step": ["er-bnt", "--track", "every-step", "--seed", "1"],
    "er, twice the rate": ["er", "--lr", "0.06"],
    "icarl, as published": ["icarl", "--as-published"],
    "gss, as published": ["gss", "--as-published"],
    "lwf, as published": ["lwf", "--as-published"],
}
CHAINS = {"er-bnt": [], "icarl-bnt": [], "der++": [], "a-gem": ["--tasks", "3"]}


def bnt(*arguments: str) -> Any:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "bntricks", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def run(method: str, out: Path, *options: str) -> dict[str, Any]:
    record = bnt("run", "--method", method, *RUN, "--memory", "25", "--out", str(out), *options)
    made = {"name": Path(record["path"]).name, "keys": sorted(record)}
    return {**record["digest"], **made, "acc": record["acc"], "bwt": record["bwt"]}


def chain(method: str, photos: Path, out: Path, *options: str) -> dict[str, Any]:
    """Three folders, one after the other."""
    model, answers = out / f"{method}.safetensors", []
    first = ["--method", method, "--memory", "20", *NETWORK, *options]
    for task, folder in enumerate(sorted(photos.iterdir())):
        learn = ["learn", str(folder), "--into", str(model), "--epochs", "2"]
        answers.append(bnt(*learn, *([] if task else first)))
        del answers[-1]["path"]
    digest = hashlib.sha256()
    with safe_open(str(model), "pt") as file:
        for name in sorted(file.keys()):
            digest.update(name.encode() + file.get_tensor(name).contiguous().numpy().tobytes())
    return {"tensors": digest.hexdigest(), "answers": answers}


def write_photos(folder: Path) -> Path:
    x, y = load_digits(return_X_y=True)
    for label in range(6):
        own = folder / str(label // 2) / f"digit {label}"
        own.mkdir(parents=True)
        for index, pixels in enumerate(x[y == label][:30]):
            image = (pixels.reshape(8, 8) * 16).clip(0, 255).astype(np.uint8)
            Image.fromarray(image).convert("RGB").save(own / f"{index}.png")
    return folder


def estimators() -> Iterator[tuple[str, str]]:
    x, y = load_digits(return_X_y=True)
    for method in ("er-bnt", "icarl-bnt", "lwf", "fdr"):
        model = IncrementalClassifier(method, random_state=0, epochs=2, memory=40, width=16)
        for first in (0, 4, 7):
            own = (y >= first) & (y < first + 4)
            model.partial_fit(x[own], y[own])
        yield method, hashlib.sha256(model.predict_proba(x).tobytes()).hexdigest()


def everything() -> dict[str, Any]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["BNT_CACHE"] = str(folder / "cache")
        runs = {each["name"]: run(each["name"], folder / "runs") for each in bnt("methods")}
        for title, (method, *options) in VARIANTS.items():
            runs[title] = run(method, folder / "variants", *options)
        photos = write_photos(folder / "photos")
        chains = {m: chain(m, photos, folder, *options) for m, options in CHAINS.items()}
    return {"runs": runs, "learn": chains, "estimator": dict(estimators())}


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
    arguments = parser.parse_args()
    now = everything()
    if arguments.do == "write":
        arguments.file.write_text(json.dumps(now, indent=1))
        return
    moved = list(differences(json.loads(arguments.file.read_text()), now))
    print("\n".join(moved) or "the same bits")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
