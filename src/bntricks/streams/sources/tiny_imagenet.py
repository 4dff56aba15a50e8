"""seq-tiny-imagenet and seq-tiny-imagenet-20: 200 classes of 64×64 JPEGs, whole or cut down.
Classes arrive in the sorted order of their wnids; the test set is the official validation split.
"""

import re
from collections.abc import Iterable

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.streams.files.archive import Folder, Zip
from bntricks.streams.files.dataset import Plan, PlannedSplit
from bntricks.streams.files.image import Pixels, Unreadable, exact_rgb
from bntricks.streams.published import Published, published_stream

CLASSES = 200
SIZE = 64
TEXT_LIMIT = 20_000_000
JPEG_LIMIT = 5_000_000
WNIDS, WORDS, ANNOTATIONS = "wnids.txt", "words.txt", "val/val_annotations.txt"
TRAIN_IMAGE = re.compile(r"train/([^/]+)/images/[^/.][^/]*\.JPEG")
VAL_IMAGE = re.compile(r"val/images/([^/.][^/]*\.JPEG)")


def _members(source: Folder) -> list[str]:
    train = [name for name in source.names("train") if TRAIN_IMAGE.fullmatch(name)]
    val = [name for name in source.names("val/images") if VAL_IMAGE.fullmatch(name)]
    return [WNIDS, WORDS, ANNOTATIONS, *train, *val]


def _plan(source: Folder | Zip) -> Plan:
    origin = shown(source.path)
    wnids = sorted(set(_text(source, WNIDS).split()))
    if len(wnids) != CLASSES:
        raise UserError(
            f"{WNIDS} in {origin} names {len(wnids)} classes, not {CLASSES}: fetch the data again"
        )
    train: dict[str, list[str]] = {wnid: [] for wnid in wnids}
    for match in map(TRAIN_IMAGE.fullmatch, source.names("train")):
        if match and match[1] in train:
            train[match[1]].append(match[0])
    words = dict(line.split("\t", 1) for line in _text(source, WORDS).splitlines() if "\t" in line)
    names = tuple(words.get(wnid, wnid).split(",")[0].strip() or wnid for wnid in wnids)

    def decode(name: str) -> Pixels:
        try:
            return exact_rgb(source.read(name, JPEG_LIMIT), SIZE)
        except Unreadable as error:
            raise UserError(
                f"cannot read the image {shown(name)} in {origin}: {shown(str(error))}; "
                "fetch the data again"
            ) from error

    training = PlannedSplit.of(train.values(), decode)
    test = PlannedSplit.of(_validation(source, wnids).values(), decode)
    return Plan(origin, (3, SIZE, SIZE), names, training, test)


def _validation(source: Folder | Zip, wnids: Iterable[str]) -> dict[str, list[str]]:
    """List the validation images that are present, by class, in the order of the annotations."""
    present = {m[1]: m[0] for m in map(VAL_IMAGE.fullmatch, source.names("val/images")) if m}
    images: dict[str, list[str]] = {wnid: [] for wnid in wnids}
    for number, line in enumerate(_text(source, ANNOTATIONS).splitlines(), 1):
        file, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in images:
            raise UserError(
                f"line {number} of {ANNOTATIONS} in {shown(source.path)} gives the class "
                f"{wnid!r}, which {WNIDS} does not name: fetch the data again"
            )
        if file in present:
            images[wnid].append(present.pop(file))
    if present:
        raise UserError(
            f"{shown(min(present.values()))} in {shown(source.path)} has no line in {ANNOTATIONS}: "
            "fetch the data again"
        )
    return images


def _text(source: Folder | Zip, name: str) -> str:
    return source.read(name, TEXT_LIMIT).decode("utf-8", "replace")


TINY_IMAGENET = Published(
    name="tiny-imagenet",
    folder="tiny-imagenet-200",
    archive="tiny-imagenet-200.zip",
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    marker=WNIDS,
    open_archive=Zip,
    members=_members,
    file_limit=TEXT_LIMIT,
    plan=_plan,
    classes=CLASSES,
    image_size=SIZE,
    pad=4,
    official=(100_000, 10_000),
    moments=((0.4802, 0.4480, 0.3975), (0.2770, 0.2691, 0.2821)),
)
published_stream(
    "seq-tiny-imagenet",
    TINY_IMAGENET,
    classes_per_task=20,
    memory=2000,
    summary="Tiny-ImageNet in tasks of twenty classes (the paper's largest benchmark)",
)
published_stream(
    "seq-tiny-imagenet-20",
    TINY_IMAGENET,
    classes_per_task=10,
    memory=2000,
    summary="Tiny-ImageNet in twenty tasks of ten classes, a longer stream",
)
