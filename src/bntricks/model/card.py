"""A model card: one page of Markdown about what a model learned, when and from how many images, its
accuracy on each class, and the doctor's verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bntricks.errors import abbreviated
from bntricks.files import shown
from bntricks.intervals import mean_share
from bntricks.model.summary import answers, confusions, right_answers

if TYPE_CHECKING:
    from bntricks.model.model import Model


def model_card(model: Model, *, title: str = "Model card", verdict: str | None = None) -> str:
    """Write the card in Markdown; `verdict` is the doctor's."""
    answered = answers(model, model.confirming)
    parts = [
        f"# {plain(title)}",
        _overview(model),
        "## How it came to be",
        _history(model),
        "## Accuracy",
        *_accuracy(model, answered),
        "## BatchNorm",
        verdict
        or "The doctor has not examined this model: it compares at least two tasks on held-out "
        "images of all their classes, where a linear classifier answers.",
        "## Use",
        "Images are cut to their centre square and resized; normalisation is part of every "
        f"exported file. {_probabilities(model)} an image of none of these classes gets one too.",
    ]
    return "\n\n".join(parts) + "\n"


def _probabilities(model: Model) -> str:
    temperature = model.metadata.temperature
    if model.frozen is None and temperature == 1:
        return "A probability is the network's own and is not calibrated:"
    by = "a temperature" if model.frozen is not None else f"a temperature of {temperature:.3g}"
    return (
        f"Probabilities are calibrated: scores are divided by {by} that fits the held-out images "
        "that choose. But"
    )


def plain(text: str) -> str:
    """Escape text from users: neither markup nor control codes."""
    return re.sub(r"([\\`*_{}\[\]<>|#&~])", r"\\\1", shown(text))


def _overview(model: Model) -> str:
    metadata = model.metadata
    network = metadata.network
    if metadata.backbone is not None:
        kind = f"{metadata.backbone.name}, pretrained and "
        kind += "tuned" if metadata.backbone.tuned else "frozen"
    elif network is None:
        kind = "a network that was trained elsewhere and adopted"
    else:
        kind = (
            f"a ResNet of width {network.width}, stages: {network.stages}, blocks in each: "
            f"{network.blocks}"
        )
    rows = [
        ("classes", str(len(model.classes))),
        ("network", f"{kind}, {sum(p.numel() for p in model.net.parameters()):,} parameters"),
        ("a sample", " × ".join(map(str, metadata.shape))),
        ("learns by", f"{metadata.method}, {metadata.optimiser}, {metadata.schedule} rate"),
        ("made with", ", ".join(f"{name} {v}" for name, v in metadata.versions.items())),
    ]
    if metadata.backbone is not None:
        rows[3:4] = [
            ("licence of its weights", metadata.backbone.licence),
            ("classifier", metadata.backbone.head or "none yet"),
        ]
    if metadata.view is not None:
        mean, std = (
            ", ".join(f"{value:.4g}" for value in values)
            for values in (metadata.view.mean, metadata.view.std)
        )
        rows.insert(3, ("normalisation", f"pixels in [0, 1], mean {mean}, deviation {std}"))
        kept = f"the middle {100 * metadata.view.crop:.4g}% of the centre square's side"
        rows.insert(3, ("photographs", f"{kept}, resized ({metadata.view.interpolation})"))
    return _table(("", ""), [(name, plain(value)) for name, value in rows])


def _history(model: Model) -> str:
    rows = []
    for number, own in enumerate(model.metadata.history, start=1):
        lesson = f"{own.images} images, {own.epochs} epochs" if own.epochs else ""
        old = "" if own.old is None else "{:.1f} to {:.1f}".format(*own.old)
        every = "" if own.all is None else f"{own.all[0]:.1f}"
        rows.append((str(number), own.date, plain(own.change), lesson, old, every))
    columns = ("", "Date (UTC)", "Change", "Lesson", "Old classes %", "All classes %")
    return _table(columns, rows)


def _accuracy(model: Model, answered: Sequence[tuple[int, int]]) -> list[str]:
    if not answered:
        return ["Not measured: the file has no held-out images."]
    measured = right_answers(answered)
    rows = []
    for label, counts in measured.items():
        rate, interval = _with_interval([counts])
        rows.append((plain(model.classes[label]), str(counts[1]), rate, interval))
    rate, interval = _with_interval(list(measured.values()))
    text = [
        f"On {len(answered)} held-out images, by which nothing was chosen, {rate}% ({interval}) "
        "with every class counting the same.",
        _table(("Class", "Images", "Accuracy %", "95% interval"), rows),
    ]
    unmeasured = [plain(name) for k, name in enumerate(model.classes) if k not in measured]
    if unmeasured:
        text.append(f"Not measured: there are no test images of {abbreviated(unmeasured, 20)}.")
    if mistakes := confusions(answered, model.classes):
        pairs = "; ".join(
            f"{plain(each.label)} for {plain(each.taken_for)} ({each.percent:.0f}%)"
            for each in mistakes
        )
        text.append(f"Most often taken for another: {pairs}.")
    return text


def _with_interval(counts: Sequence[tuple[int, int]]) -> tuple[str, str]:
    mean, low, high = mean_share(counts) or (0.0, 0.0, 0.0)
    return f"{mean:.1f}", f"{low:.1f} to {high:.1f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
