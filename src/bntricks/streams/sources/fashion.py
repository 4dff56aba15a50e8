"""seq-fashion: Fashion-MNIST, 28×28 grey images of ten kinds of clothing, from its four official
idx files, whole or cut down. A cut is embedded, the first 200 training and the first 200 test
images of each class: the folder `fashion-mnist` beside this file, with its licence and a list of
where each image stands in the official files. `benchmarks/embed_fashion.py` makes it.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bntricks.errors import UserError
from bntricks.files import read_errors, shown
from bntricks.streams.files.archive import Folder, gunzipped
from bntricks.streams.files.dataset import Plan, PlannedSplit, cached, scaled_pad
from bntricks.streams.published import check_folder
from bntricks.streams.registry import OpenOptions, StreamInfo, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import in_blocks_of, make_stream

NAMES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SIZE = 28
PAD = 2
MOMENTS = ((0.2860,), (0.3530,))
OFFICIAL = (60_000, 10_000)
FILE_LIMIT = 100_000_000

EMBEDDED = Path(__file__).parent / "fashion-mnist"
FOLDERS = ("", "fashion-mnist", "FashionMNIST/raw")
"""Where the files may lie in a data folder; the last is torchvision's place for them."""
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
ZIPPED = ".gz"

Bytes = NDArray[np.uint8]


@stream(
    "seq-fashion",
    summary="Fashion-MNIST in tasks of two classes, grey; an embedded cut, or the whole set in a "
    "data folder",
    tasks="5 × 2",
    image_size=SIZE,
    memory=200,
    official=OFFICIAL,
    data="embedded",
)
def seq_fashion(info: StreamInfo, options: OpenOptions) -> Stream:
    source = _locate(options)
    size = None if options.image_size == SIZE else options.image_size
    dataset = cached(
        "fashion-mnist",
        source.digest(
            [_stored(source, name) for name in (*TRAIN, *TEST)], FILE_LIMIT, options.report
        ),
        lambda: _plan(source),
        options.report,
        options.warn,
        size=size,
    )
    return make_stream(
        info.name,
        dataset,
        in_blocks_of(len(NAMES), 2),
        moments=MOMENTS,
        pad=scaled_pad(PAD, SIZE, size),
        flip=True,
        memory=info.memory,
        official=OFFICIAL,
    )


def _locate(options: OpenOptions) -> Folder:
    """Find the folder with the official files. BNT_DATA need not hold them."""
    data = options.data
    if data is None:
        return Folder(EMBEDDED)
    contents = f"the files {', '.join((*TRAIN, *TEST))}, each as it is or as {ZIPPED}"
    with read_errors(data):
        for folder in map(Folder, (data / name for name in FOLDERS)):
            if (folder.path / _stored(folder, TRAIN[0])).is_file():
                return folder
        if not options.data_is_given:
            return Folder(EMBEDDED)
        check_folder(data, contents)
    raise UserError(
        f"{shown(data)} does not hold Fashion-MNIST: give a folder with {contents}, or leave it "
        "out for the embedded cut",
        option="data",
    )


def _stored(source: Folder, name: str) -> str:
    """Return the name of a stored file, which is zipped or not."""
    return name if (source.path / name).is_file() else name + ZIPPED


def _plan(source: Folder) -> Plan:
    stored = {name: _stored(source, name) for name in (*TRAIN, *TEST)}
    contents = source.read_all(list(stored.values()), FILE_LIMIT)

    def read(name: str, axes: int) -> Bytes:
        path, content = source.path / stored[name], contents[stored[name]]
        if path.suffix == ZIPPED:
            content = gunzipped(content, FILE_LIMIT, path)
        return _array(content, axes, shown(path))

    def part(images: str, labels: str) -> PlannedSplit:
        x, y = read(images, 3), read(labels, 1)
        _check_pair(x, y, shown(source.path / stored[images]), shown(source.path / stored[labels]))
        counts = np.bincount(y, minlength=len(NAMES))
        by_class = (x[y == label, None] for label in range(len(NAMES)))
        return PlannedSplit(tuple(counts.tolist()), by_class)

    return Plan(shown(source.path), (1, SIZE, SIZE), NAMES, part(*TRAIN), part(*TEST))


def _array(content: bytes, axes: int, path: str) -> Bytes:
    """Parse an idx file: two zero bytes, 8 for uint8, the number of axes, the length of each as a
    big-endian number of four bytes, and then the values."""
    start = 4 * (axes + 1)
    if content[:4] != bytes((0, 0, 8, axes)) or len(content) < start:
        raise UserError(
            f"{path} does not begin like an idx file of bytes with {axes} "
            f"ax{'i' if axes == 1 else 'e'}s: fetch it again"
        )
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    values = np.frombuffer(content, np.uint8, offset=start)
    if len(values) != np.prod(shape, dtype=object):
        raise UserError(
            f"{path} is cut off or too long: its header promises {' × '.join(map(str, shape))} "
            f"bytes, and {len(values):,} follow; fetch it again"
        )
    return values.reshape(shape)


def _check_pair(x: Bytes, y: Bytes, images: str, labels: str) -> None:
    if x.shape[1:] != (SIZE, SIZE):
        raise UserError(
            f"{images} has images of {x.shape[1]}×{x.shape[2]}, not {SIZE}×{SIZE}: fetch it again"
        )
    if len(x) != len(y):
        raise UserError(
            f"{images} has {len(x):,} images and {labels} {len(y):,} labels: fetch both again"
        )
    wrong = np.flatnonzero(y >= len(NAMES))
    if len(wrong):
        raise UserError(
            f"{labels} has the label {y[wrong[0]]} in place {wrong[0]}, where 0 to "
            f"{len(NAMES) - 1} are allowed: fetch it again"
        )
