"""`bnt predict` and `bnt export`: a model at work, here and elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

from bntricks.cli import console
from bntricks.cli.app import Json, Paths, Switch, Threads, app
from bntricks.cli.models import check_target, open_model, prepare
from bntricks.cli.printing import print_json
from bntricks.errors import UserError
from bntricks.files import shown


@app.command
def predict(
    model: Path,
    images: Paths,
    /,
    *,
    net: str | None = None,
    skip_unreadable: Switch = False,
    device: str = "cpu",
    threads: Threads = 1,
    json: Json = False,
    csv: Switch = False,
) -> None:
    """Say which class each image belongs to, and how probable that is.

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote.
    images
        Image files, and folders with images in them, nested or not.
    net
        An adopted model: what builds its network, as `package.module:function`. It is imported
        and run.
    skip_unreadable
        Name images that cannot be read and leave them out, instead of refusing.
    device
        Where to compute: cpu, cuda, cuda:N or mps.
    threads
        CPU threads. Different counts give different bits.
    json
        Print an array of {path, label, probability}.
    csv
        Print the same as CSV.
    """
    from bntricks.streams.files.image_files import find_images, read_files

    if json and csv:
        raise UserError("both --json and --csv are given: leave one of them out")
    prepare(device, threads)
    opened = open_model(model, net=net, device=device)
    shape = opened.metadata.shape
    if opened.metadata.view is None or len(shape) != 3 or shape[0] != 3:
        raise UserError(f"{shown(model)} does not take colour images: predict with it in Python")
    with console.reporting() as report:
        photos = read_files(find_images(images), shape[-1], skip=skip_unreadable, report=report)
    for line in photos.unreadable:
        console.complain(f"{line}; left out")
    best = opened.predict_proba(photos.x).max(1) if len(photos.x) else None
    labels = [] if best is None else [opened.classes[column] for column in best.indices]
    probabilities: list[float] = [] if best is None else best.values.double().tolist()
    rows = list(zip(map(str, photos.files), labels, probabilities, strict=True))
    if json:
        print_json([{"path": p, "label": lab, "probability": pr} for p, lab, pr in rows])
    elif csv:
        _print_csv(rows)
    else:
        table = [[shown(label), f"{100 * pr:.1f}", shown(path)] for path, label, pr in rows]
        console.show(["label", "probability %", "image"], table)


@app.command
def export(
    model: Path,
    /,
    *,
    onnx: Path | None = None,
    safetensors: Path | None = None,
    net: str | None = None,
) -> None:
    """Write a model for use elsewhere.

    The ONNX file takes uint8 images, [N, 3, size, size], any number of them, and normalises them
    itself. It gives `scores` and `probabilities`, [N, classes]; the class names are JSON under
    `classes` in its metadata. It is checked with onnxruntime before it is written. iCaRL's
    nearest class mean is exported as well.

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote.
    onnx
        An ONNX file to write; needs `pip install 'bntricks[onnx]'`.
    safetensors
        A model file to write, without memory and test images: it holds no images and predicts
        the same, but cannot be taught more.
    net
        An adopted model: what builds its network, as `package.module:function`. It is imported
        and run.
    """
    targets = [path for path in (onnx, safetensors) if path is not None]
    if not targets:
        raise UserError("nothing to write: give --onnx FILE, --safetensors FILE, or both")
    for path in targets:
        check_target(path)
        if path.exists() and path.samefile(model):
            raise UserError(f"{shown(path)} is the model itself: write to a different file")
    opened = open_model(model, net=net)
    if onnx is not None:
        difference = opened.export(onnx)
        console.say(
            f"written to {shown(onnx)}; onnxruntime's probabilities agree to {difference:.1g}"
        )
    if safetensors is not None:
        opened.save(safetensors, memory=False)
        console.say(f"written to {shown(safetensors)}, without memory")


def _print_csv(rows: list[tuple[str, str, float]]) -> None:
    """In UTF-8, whatever the terminal's encoding. Names that do not print are escaped, as they are
    everywhere; `--json` has them as they are."""
    from bntricks.report.tables import csv_text

    sys.stdout.flush()
    sys.stdout.buffer.write(csv_text(["path", "label", "probability"], rows).encode())
    sys.stdout.buffer.flush()
