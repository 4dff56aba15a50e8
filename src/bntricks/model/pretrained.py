"""A model that begins with a pretrained network. Its trunk is frozen: features are computed once,
and a linear layer is learned on them, from sums over images that do not depend on their order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.errors import RunError, UserError
from bntricks.model.checks import check_classes
from bntricks.model.create import build, protocol
from bntricks.model.heads import Layer, Statistics, accuracy, all_layers, calibrated, right
from bntricks.model.history import checksum, today
from bntricks.model.metadata import LearnedTask, Metadata, Preprocessing, Pretrained
from bntricks.model.model import Model
from bntricks.model.options import Protocol
from bntricks.model.phi import better, class_means, parted
from bntricks.model.samples import ClassSamples, check_samples, choosing, gather, testing
from bntricks.model.summary import Learned, answers, conclude
from bntricks.networks.backbones import ImageInput, find_backbone
from bntricks.networks.head import features, keep_outputs, last_linear, return_scores
from bntricks.networks.imported import summary
from bntricks.networks.registry import channels_last
from bntricks.networks.weights import load_weights
from bntricks.norm import mode
from bntricks.recipes.lesson import Lesson
from bntricks.recipes.policies import evenly
from bntricks.streams import Images
from bntricks.streams.files.image import Square
from bntricks.streams.files.image_files import class_files, other_files, read_blocks
from bntricks.streams.files.progress import OnProgress
from bntricks.training.events import Sink, reported

AT_ONCE = 2048
"""Rows whose scatter is computed at once, in float64."""


@dataclass(frozen=True)
class Frozen:
    """The data of a model on a frozen trunk, made of features alone."""

    statistics: Statistics
    stored: Images
    """Features in float16 of training images, as many as the memory holds."""
    tests: Images
    """Those of all held-out images."""
    seen: Images
    """A fingerprint of every image, to recognise it by; it has no pixel of it."""
    highest: Tensor
    """The highest score of each held-out image that chooses, sorted: what images of known classes
    have."""
    stored_images: Tensor | None = None
    """Where images are kept: those of `stored`, uint8."""
    test_images: Tensor | None = None
    """And those of `tests`."""

    @classmethod
    def empty(cls, width: int) -> Frozen:
        """Return the data of no images."""
        no_labels = torch.zeros(0, dtype=torch.int64)
        no_features = Images(torch.zeros(0, width, dtype=torch.float16), no_labels)
        return cls(
            Statistics.empty(width),
            no_features,
            no_features,
            Images(no_labels, no_labels),
            torch.zeros(0),
        )

    def without(self, outputs: Tensor) -> Frozen:
        """Leave out classes: `outputs` has the new number of each class, or -1."""

        def left(images: Images) -> Images:
            y = outputs[images.y]
            return Images(images.x[y >= 0], y[y >= 0])

        def those(images: Tensor | None, y: Tensor) -> Tensor | None:
            return None if images is None else images[outputs[y] >= 0]

        return Frozen(
            self.statistics.kept((outputs >= 0).nonzero().flatten().tolist()),
            left(self.stored),
            left(self.tests),
            left(self.seen),
            self.highest,
            those(self.stored_images, self.stored.y),
            those(self.test_images, self.tests.y),
        )


def create_pretrained(
    name: str,
    *,
    weights: Path | str | None = None,
    preprocessing: ImageInput | None = None,
    image_size: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    crop: float | None = None,
    interpolation: str | None = None,
    keep_images: bool = False,
    augment: bool = True,
    device: str = "cpu",
    **options: Any,
) -> Model:
    """Make a model around this backbone that knows no class yet. Images are prepared as the weights
    say, or as `preprocessing` does, but for what is given by name. Only with `keep_images` can the
    trunk be tuned later. Further `options` are those of `Protocol`."""
    how = Protocol.of(**options)
    made = find_backbone(name)(weights is None)
    if weights is not None:
        load_weights(made.net, Path(weights))
    own = preprocessing or (made.input if weights is None else None)
    given: dict[str, Any] = {
        "mean": tuple(mean),
        "std": tuple(std),
        "crop": crop,
        "interpolation": interpolation,
    }
    if own is None and not (mean and std and image_size):
        raise UserError(
            "nothing says how images are prepared for these weights: give image_size, mean and "
            "std, or the JSON file that came with them",
            remedy="preprocessing",
        )
    own = replace(
        own or ImageInput(None, (), ()), **{k: v for k, v in given.items() if v not in (None, ())}
    )
    size = image_size or own.size
    if size is None:
        raise UserError(
            "nothing says how large its images are: give their side", option="image_size"
        )
    view = Preprocessing.of(
        **{k: v for k, v in asdict(own).items() if k != "size"},
        pad=size // 8 if augment else 0,
        flip=augment,
    )
    metadata = Metadata.of(
        **protocol(how),
        network=None,
        backbone=Pretrained(name=name, licence=made.licence, keep_images=keep_images),
        shape=(3, size, size),
        view=view,
    )
    net = prepared(made.net)
    learner = build(metadata, net, 0, device)
    net.eval()
    return Model(learner, metadata, frozen=Frozen.empty(_width(net, metadata)))


def prepared(net: nn.Module) -> nn.Module:
    """Put a plain linear layer without outputs in place of the network's last one."""
    old = last_linear(net)
    path = next(path for path, module in net.named_modules() if module is old)
    net.set_submodule(path, nn.Linear(old.in_features, 1))
    keep_outputs(net, [])
    return channels_last(return_scores(net))


def _width(net: nn.Module, metadata: Metadata) -> int:
    """Return the number of features; refuse a network that does not take such images."""
    black, width = torch.zeros(2, *metadata.shape), last_linear(net).in_features
    device = next(net.parameters()).device
    try:
        with mode(net, training=False), torch.no_grad():
            shape = list(features(net, black.to(device)).shape)
    except Exception as error:
        raise UserError(
            f"the network cannot take images of {list(metadata.shape)}: {summary(error)}; give a "
            "different size",
            remedy="image_size",
        ) from error
    if shape != [2, width]:
        raise UserError(
            f"the last layer of this network sees {shape} for two images, and features are "
            f"{[2, width]}: choose another network"
        )
    return width


def teach_features(
    model: Model,
    images: Any,
    *,
    held_out: float,
    more: bool,
    skip: bool,
    sink: Sink,
    tune: bool = False,
    tune_from: str | None = None,
    epochs: int | None = None,
    lr: float | None = None,
) -> Learned:
    """Learn new classes, or more of known ones, in one pass over their images. Then `tune` the
    trunk, all of it or from a part on, for these `epochs` at this rate; the tuned one is used if it
    is better."""
    from bntricks.model.tune import tuned

    frozen, metadata, state = model.frozen, model.metadata, model.learner.state
    assert frozen is not None
    assert metadata.backbone is not None
    tune = tune or tune_from is not None
    _check_tuning(model, tune, tune_from, {"epochs": epochs, "lr": lr})
    pictures = open_pictures(images, metadata)
    check_classes(model, pictures.names, more=more)
    samples, seen, pixels = _embedded(model, pictures, held_out, skip, reported(sink))
    known = [name for name in samples.names if name in metadata.classes]
    new = tuple(name for name in samples.names if name not in known)
    classes = (*metadata.classes, *new)
    outputs = torch.tensor([classes.index(name) for name in samples.names])
    train, test, marks = (
        Images(part.x, outputs[part.y]) for part in (samples.train, samples.test, seen)
    )
    tests = _joined(frozen.tests, Images(test.x.half(), test.y))
    first, second = (Images(tests.x[part], tests.y[part]) for part in parted(tests.y))
    old = second.y < len(metadata.classes)
    before = answers(model, Images(second.x[old], second.y[old]))

    statistics = frozen.statistics
    for x, y in zip(torch.split(train.x, AT_ONCE), torch.split(train.y, AT_ONCE), strict=True):
        statistics = statistics.added(Images(x, y), len(classes))
    insertion = model.learner.generators.memory_insertion
    last, lesson, drawn = last_linear(model.net), state.lesson, insertion.get_state()
    layer_before = (last.weight.detach(), last.bias.detach())
    stored = _joined(frozen.stored, Images(train.x.half(), train.y))
    chosen = evenly(stored.y, metadata.memory, insertion)
    stored = Images(stored.x[chosen], stored.y[chosen])
    kept: list[Tensor] = []
    if pixels is not None:
        earlier = (frozen.stored_images, frozen.test_images)
        kept = [
            own if old is None else torch.cat([old, own])
            for old, own in zip(earlier, pixels, strict=True)
        ]
        kept[0] = kept[0][chosen]
    layers = all_layers(statistics, stored, first)
    rates = {name: accuracy(layer, second) for name, layer in layers.items() if len(second)}
    best = better("lda", {name: parts_right(layer, tests) for name, layer in layers.items()})
    tuning = None
    try:
        serve(model.net, *calibrated(layers[best], first))
        known_yet = len(metadata.classes)
        later = tuple(range(known_yet, len(classes)))
        state.lesson = Lesson(len(metadata.taught) + 1, later, tuple(range(known_yet)))
        highest = highest_scores(model, tests)
        seen = _joined(frozen.seen, marks)
        model.frozen = Frozen(statistics, stored, tests, seen, highest, *kept)
        task = LearnedTask(
            classes=new, images=len(train), epochs=1, date=today(), more=tuple(known)
        )
        about = metadata.backbone.model_copy(update={"head": best})
        changes = {"taught": (*metadata.taught, task), "backbone": about}
        model.metadata = metadata.model_copy(update=changes)
        if pixels is not None and tune:
            lesson_images = Images(pixels[0], train.y)
            tuning = tuned(model, lesson_images, tune_from, epochs=epochs, lr=lr, sink=sink)
    except BaseException:
        model.frozen, model.metadata, state.lesson = frozen, metadata, lesson
        serve(model.net, *layer_before)
        insertion.set_state(drawn)
        raise
    data = checksum({"classes": samples.names}, {"images": marks.x, "labels": marks.y})
    learned = conclude(
        model,
        before,
        len(train),
        held=int((~choosing(frozen.tests.y)).sum()),
        data=data,
        unreadable=samples.unreadable,
    )
    assert model.metadata.backbone is not None
    return replace(learned, heads=rates, head=model.metadata.backbone.head, tuning=tuning)


def _check_tuning(
    model: Model, tune: bool, tune_from: str | None, training: dict[str, float | None]
) -> None:
    """Refuse, before any work, a trunk that cannot be tuned, and options of tuning without it."""
    from bntricks.model.tune import check_part

    assert model.metadata.backbone is not None
    if tune_from is not None:
        check_part(model.net, tune_from)
    if tune and not model.metadata.backbone.keep_images:
        raise UserError(
            "this model keeps features and no images, and features expire when the trunk is tuned: "
            "begin a model that keeps images",
            option="tune",
            remedy="keep_images",
        )
    for option, value in training.items():
        if value is not None and not tune:
            raise UserError(
                "a frozen trunk is not trained: leave it out, or tune the trunk too",
                option=option,
                value=value,
                remedy="tune",
            )


def parts_right(layer: Layer, tests: Images) -> tuple[float, float]:
    """Return the accuracy in percent on held-out features that choose, and on the others."""
    return class_means(right(layer, tests), tests.y, parted(tests.y))


def highest_scores(model: Model, tests: Images) -> Tensor:
    """Return the highest score of each of these features that chooses, sorted; of all, if none
    does."""
    chooses = choosing(tests.y)
    x = tests.x[chooses] if chooses.any() else tests.x
    return feature_scores(model, x).amax(1).sort().values


def serve(net: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Use this layer as the network's last."""
    head = last_linear(net)
    head.weight, head.bias = (nn.Parameter(part.to(head.weight.device)) for part in (weight, bias))
    head.out_features = len(bias)


def feature_scores(model: Model, x: Tensor) -> Tensor:
    """Return a score for every class, from stored features."""
    head = last_linear(model.net)
    with torch.no_grad():
        return F.linear(x.to(head.weight.device).float(), head.weight, head.bias).cpu()


@dataclass(frozen=True, slots=True)
class Pictures:
    """Labelled images, in files or in memory."""

    names: tuple[str, ...]
    square: Square
    files: dict[Path, int]
    """Files with their labels."""
    images: Images | None = None
    """What is in memory already."""
    left_out: tuple[str, ...] = ()
    """A line for each kind of file that is not read."""

    def __len__(self) -> int:
        return len(self.files) if self.images is None else len(self.images)

    def read(self, skip: bool) -> Iterator[tuple[Images, tuple[str, ...]]]:
        """Yield images a block at a time, with a line for each that was left out."""
        if self.images is not None:
            parts = torch.split(self.images.x, 128), torch.split(self.images.y, 128)
            yield from ((Images(x, y), ()) for x, y in zip(*parts, strict=True))
        for part in read_blocks(list(self.files), self.square, skip=skip):
            labels = torch.tensor([self.files[file] for file in part.files], dtype=torch.int64)
            yield Images(part.x, labels), part.unreadable


def open_pictures(given: Any, metadata: Metadata) -> Pictures:
    """List the files of a folder of class folders, or take what is in memory."""
    if isinstance(given, str | Path):
        by_class = class_files(Path(given))
        files = {file: label for label, own in enumerate(by_class.values()) for file in own}
        others = other_files(Path(given))
        return Pictures(tuple(by_class), metadata.square, files, left_out=others)
    samples = given if isinstance(given, ClassSamples) else gather(given, size=metadata.square)
    check_samples(metadata, samples.train.x)
    return Pictures(samples.names, metadata.square, {}, samples.train)


def _embedded(
    model: Model, pictures: Pictures, held_out: float, skip: bool, report: OnProgress
) -> tuple[ClassSamples, Images, tuple[Tensor, Tensor] | None]:
    """Compute features of the images that the model has not seen. Also return the images'
    fingerprints, and where images are kept, those to train and those to test. Classes of which no
    image is left are left out."""
    assert model.frozen is not None
    assert model.metadata.backbone is not None
    keeps, pixels = model.metadata.backbone.keep_images, list[Tensor]()
    seen = set(model.frozen.seen.x.tolist())
    x, y, marks, unreadable, done = [], [], [], list(pictures.left_out), 0
    for images, left_out in pictures.read(skip):
        own = fingerprints(images.x)
        rows = torch.tensor([mark not in seen for mark in own.tolist()], dtype=torch.bool)
        if rows.any():
            x.append(model.learner.state.features(images.x[rows]).cpu())
            y.append(images.y[rows])
            marks.append(own[rows])
            if keeps:
                pixels.append(images.x[rows])
        unreadable += left_out
        done += len(images) + len(left_out)
        report("computing features", done, len(pictures))
    if not x:
        raise UserError("the model has all these images already: give others")
    every, mark = Images(torch.cat(x), torch.cat(y)), torch.cat(marks)
    if not every.x.half().isfinite().all():
        raise RunError(
            "the network's features are not finite in half precision: its weights are damaged, or "
            "images are prepared in another way than for these"
        )
    remaining = sorted(set(every.y.tolist()))
    place = torch.full((len(pictures.names),), -1)
    place[remaining] = torch.arange(len(remaining))
    labels = place[every.y]
    test = torch.zeros(len(every), dtype=torch.bool)
    for label, name in enumerate(pictures.names[k] for k in remaining):
        own = (labels == label).nonzero().flatten()
        if len(own) < 2 and held_out:
            raise UserError(
                f"the class {name!r} has one image: it needs at least two, one to train and one to "
                "test"
            )
        test[own] = testing(len(own), held_out)
    samples = ClassSamples(
        tuple(pictures.names[k] for k in remaining),
        Images(every.x[~test], labels[~test]),
        Images(every.x[test], labels[test]),
        tuple(unreadable),
    )
    whole = torch.cat(pixels) if keeps else None
    return samples, Images(mark, labels), None if whole is None else (whole[~test], whole[test])


def fingerprints(x: Tensor) -> Tensor:
    """Return 64 bits of a hash of each image, as it is given to the network."""
    digests = (hashlib.sha256(own.numpy().tobytes()).digest()[:8] for own in x.contiguous())
    return torch.tensor([int.from_bytes(d, "little", signed=True) for d in digests])


def _joined(first: Images, second: Images) -> Images:
    return Images(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]))
