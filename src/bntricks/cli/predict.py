"""`bnt predict` and `bnt export`: a model at work, here and elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.app import Count, Device, Imports, Json, Paths, Switch, Threads, app, import_all
from bntricks.cli.models import (
    Net,
    SkipUnreadable,
    check_target,
    check_targets,
    examined,
    open_model,
    prepare,
    read_images,
)
from bntricks.cli.printing import print_json, stdout_reserved
from bntricks.errors import UserError
from bntricks.files import commit, held, shown, write_errors

if TYPE_CHECKING:
    from bntricks.model.answers import Answer, Candidate
    from bntricks.model.model import Model

Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]
UNKNOWN = "unknown"


@app.command
def predict(
    model: Path,
    images: Paths,
    /,
    *,
    top: Count = 1,
    probabilities: Switch = False,
    threshold: Share | None = None,
    unknown: Path | None = None,
    false_acceptance: Share | None = None,
    net: Net = None,
    imports: Imports = (),
    skip_unreadable: SkipUnreadable = False,
    device: Device = "cpu",
    threads: Threads = 1,
    json: Json = False,
    csv: Switch = False,
) -> None:
    """Say which class each image belongs to, and how surely.

    A network knows no other classes than those it learned, and gives every image one of them.
    With a threshold it may answer "unknown". What that costs is measured first: on the model's own
    held-out images, and on a folder of images of other classes, given as --unknown. A threshold
    that refuses most known images, or accepts unknown ones no less often, is not used.

    Examples:

    - `bnt predict model.safetensors photos --top 3`
    - `bnt predict model.safetensors photos --unknown others --false-acceptance 0.02`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote.
    images
        Image files, and folders with images in them, nested or not.
    top
        How many of the likeliest classes to name for each image.
    probabilities
        Add the probability of every class.
    threshold
        Answer "unknown" unless the likeliest class is more probable than this. With a pretrained
        backbone: unless the image is more familiar than this share of the model's own held-out
        images, so that 0.05 refuses about 5% of those.
    unknown
        A folder of images of other classes, on which to measure how many of them pass the
        threshold. Without --threshold one is chosen: on one half of them, measured on the other.
    false_acceptance
        With --unknown: the share of its images that the chosen threshold may let pass
        [default: 0.05].
    json
        Print an array of {path, label, probability}; the label is null where it is unknown, and
        there are also the `threshold` and the `confidence` it is compared with. With --top there
        are also `candidates`, with --probabilities there is also an object of these.
    csv
        Print the same as CSV.
    """
    from bntricks.streams.files.image_files import find_images, read_blocks

    import_all(imports)
    if json and csv:
        raise UserError("both --json and --csv are given: leave one of them out")
    if false_acceptance is not None and (unknown is None or threshold is not None):
        raise UserError(
            "it is for choosing a threshold: give --unknown FOLDER, and no --threshold",
            option="false_acceptance",
        )
    prepare(device, threads)
    opened = open_model(model, net=net, device=device)
    shape = opened.metadata.shape
    if opened.metadata.view is None or len(shape) != 3 or shape[0] not in (1, 3):
        raise UserError(f"{shown(model)} does not take images: predict with it in Python")
    files = find_images(images)
    if unknown is not None:
        threshold = _measured(opened, unknown, threshold, false_acceptance, skip_unreadable)
    elif threshold is not None:
        _checked(opened, threshold)
    every = len(opened.classes)
    ranked = every if probabilities else min(top, every)
    answered: list[tuple[str, Answer]] = []
    with stdout_reserved(), console.reporting() as report:
        blocks = read_blocks(files, opened.metadata.square, skip=skip_unreadable, report=report)
        for photos in blocks:
            if len(photos.x):
                answers = opened.answer(photos.x, top=ranked, threshold=threshold)
                answered += zip(map(str, photos.files), answers, strict=True)
            for line in photos.unreadable:
                console.complain(f"{line}; left out")
    columns = opened.classes if probabilities else ()
    if json:
        print_json([_as_json(path, each, top, columns, threshold) for path, each in answered])
    elif csv:
        _print_csv(answered, min(top, every), columns)
    else:
        _print_table(answered, min(top, every), columns)


@app.command
def export(
    model: Path,
    /,
    *,
    onnx: Path | None = None,
    pt2: Path | None = None,
    safetensors: Path | None = None,
    card: Path | None = None,
    net: Net = None,
    imports: Imports = (),
    threshold: Share | None = None,
    force: Switch = False,
) -> None:
    """Write a model for use elsewhere, as ONNX or by torch.export.

    The ONNX and the torch.export file take uint8 images, [N, 3, size, size], any number of them,
    and normalise them themselves. They give `scores` and `probabilities`, [N, classes]; the class
    names are JSON under `classes` in the metadata of ONNX, and in the extra file `classes.json` of
    torch.export. Each is read back and compared with the model before it is written. iCaRL's
    nearest class mean is exported as well.

    Examples:

    - `bnt export model.safetensors --onnx model.onnx`

    Parameters
    ----------
    model
        A model file that `bnt learn` wrote.
    onnx
        An ONNX file to write; needs `pip install 'bntricks[onnx]'`.
    pt2
        A torch.export file to write, for torch.export.load or AOTInductor.
    safetensors
        A model file to write, without memory and test images: it holds no images and predicts
        the same, but cannot be taught more.
    card
        A model card to write, in Markdown: what was learned when, accuracy by class on held-out
        images, and what the doctor says.
    threshold
        With --onnx and --pt2: a third output, `accepted`, [N], says whether an image may be of a
        known class, as with `bnt predict --threshold`.
    force
        Replace files that are there already.
    """
    from bntricks.model.export import to_onnx, to_pt2
    from bntricks.model.file import packed

    import_all(imports)
    targets = [path for path in (onnx, pt2, safetensors, card) if path is not None]
    if not targets:
        raise UserError(
            "nothing to write: give --onnx FILE, --pt2 FILE, --safetensors FILE or --card FILE"
        )
    check_targets(targets, inputs=[model])
    _check_ending(onnx, ".onnx", "an ONNX")
    _check_ending(pt2, ".pt2", "a torch.export")
    opened = open_model(model, net=net)
    contents, notes = {}, {}
    if threshold is not None:
        if onnx is None and pt2 is None:
            raise UserError("it is for --onnx and --pt2: leave it out", option="threshold")
        _checked(opened, threshold)
    if onnx is not None:
        contents[onnx], difference = to_onnx(opened, threshold)
        notes[onnx] = f"; onnxruntime's probabilities agree to {difference:.1g}"
    if pt2 is not None:
        contents[pt2], difference = to_pt2(opened, threshold)
        notes[pt2] = f"; its probabilities agree to {difference:.1g}"
    if safetensors is not None:
        contents[safetensors] = packed(opened, memory=False)[0]
        notes[safetensors] = ", without memory"
    if card is not None:
        contents[card] = opened.card(title=model.name, verdict=examined(opened)).encode()
    with write_errors(*targets), held(*targets, wait=True):
        for path, content in contents.items():  # a killed command may have written it already
            done = path.exists() and path.read_bytes() == content
            check_target(path, force=force or done)
        commit(contents)
    for path in contents:
        console.say(f"written to {shown(path)}{notes.get(path, '')}")


def _check_ending(path: Path | None, ending: str, kind: str) -> None:
    if path is not None and path.suffix != ending:
        raise UserError(
            f"the name of {kind} file ends in {ending}", option=ending[1:], value=shown(path)
        )


def _measured(
    model: Model, folder: Path, threshold: float | None, rate: float | None, skip: bool
) -> float:
    """Return the threshold, given or chosen; print on stderr what it accepts."""
    from bntricks.model.answers import FALSE_ACCEPTANCE
    from bntricks.streams.files.image_files import find_images, read_files

    files, size = find_images([folder]), model.metadata.square
    names = {folder.resolve().name, *(part for f in files for part in f.relative_to(folder).parts)}
    if learned := sorted(names.intersection(model.classes)):
        raise UserError(
            f"there are images in a folder named {learned[0]!r}, a class that the model has "
            "learned: give images of other classes only",
            option="unknown",
            value=folder,
        )
    others = read_images(read_files, files, size, skip=skip)
    rate = FALSE_ACCEPTANCE if rate is None else rate
    with stdout_reserved():
        passed = model.acceptance(others.x, threshold=threshold, false_acceptance=rate)
    assert passed.unknown is not None
    known = f", and {passed.known} of its own held-out images" if passed.known else ""
    console.complain(
        f"a threshold of {passed.threshold:.6g} accepts {passed.unknown} of the "
        f"{passed.unknown.images} images of unknown classes{known} (95% intervals)"
    )
    passed.check()
    return passed.threshold


def _checked(model: Model, threshold: float) -> None:
    """Print on stderr what this threshold costs, and refuse a useless one."""
    passed = model.acceptance(threshold=threshold)
    cost = "what it costs is not known, as the model has no held-out images"
    if passed.known is not None:
        cost = f"it accepts {passed.known} of the model's own held-out images (95% interval)"
    console.complain(
        f"a threshold of {threshold:.6g}: {cost}; how many images of other classes pass is not "
        "known: give a folder of some as --unknown to measure it"
    )
    passed.check()


def _as_json(
    path: str, answer: Answer, top: int, columns: Sequence[str], threshold: float | None
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "path": path,
        "label": answer.label,
        "probability": answer.probability,
    }
    if threshold is not None:
        value |= {"threshold": threshold, "confidence": answer.confidence}
    if top > 1:
        value["candidates"] = [asdict(each) for each in answer.candidates[:top]]
    if columns:
        value["probabilities"] = _in_order(answer, columns)
    return value


def _in_order(answer: Answer, columns: Sequence[str]) -> dict[str, float]:
    by_label = {each.label: each.probability for each in answer.candidates}
    return {label: by_label[label] for label in columns}


def _print_table(answered: Sequence[tuple[str, Answer]], top: int, columns: Sequence[str]) -> None:
    header = ["label", "probability %", "image"]
    rows = [
        [shown(answer.label or UNKNOWN), f"{100 * answer.probability:.1f}", shown(path)]
        for path, answer in answered
    ]
    if top > 1:
        header.insert(2, f"the {top} likeliest")
        for row, (_, answer) in zip(rows, answered, strict=True):
            row.insert(2, ", ".join(_percent(each) for each in answer.candidates[:top]))
    for row, (_, answer) in zip(rows, answered, strict=True):
        row += [f"{100 * p:.1f}" for p in _in_order(answer, columns).values()]
    console.show([*header, *(f"{shown(name)} %" for name in columns)], rows)


def _percent(candidate: Candidate) -> str:
    return f"{shown(candidate.label)} {100 * candidate.probability:.1f}"


def _print_csv(answered: Sequence[tuple[str, Answer]], top: int, columns: Sequence[str]) -> None:
    """Print CSV in UTF-8, whatever the terminal's encoding. Names that do not print are escaped;
    `--json` leaves them as they are."""
    from bntricks.report.tables.table import csv_text

    places = [f"{what} {place}" for place in range(2, top + 1) for what in ("label", "probability")]
    header = ["path", "label", "probability", *places, *(f"probability of {n}" for n in columns)]
    rows = [
        [path, answer.label or UNKNOWN, answer.probability]
        + [value for each in answer.candidates[1:top] for value in (each.label, each.probability)]
        + list(_in_order(answer, columns).values())
        for path, answer in answered
    ]
    sys.stdout.flush()
    sys.stdout.buffer.write(csv_text(header, rows).encode())
    sys.stdout.buffer.flush()
