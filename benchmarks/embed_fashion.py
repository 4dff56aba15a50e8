"""Cut the images that `seq-fashion` embeds out of the four official Fashion-MNIST files.

    python benchmarks/embed_fashion.py DIR

DIR holds `train-images-idx3-ubyte.gz` and the other three, as they were published or as Debian's
package `dataset-fashion-mnist` has them (`apt-get download`, then `dpkg-deb -x`). Debian removes
the file's name and time from the gzip header; they are put back, and then each file must have its
published md5. The first 200 training and the first 200 test images of each class are written, class
after class, each in the official order, with a list that says of every one where it stands in the
official files and what its digest is. Running it again changes nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import struct
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bntricks.streams.sources.fashion import EMBEDDED, NAMES, TEST, TRAIN, ZIPPED

IMAGES = 200
"""Of each class, to train on and to test on."""
MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
"""Of the compressed files, as their authors publish them."""
PACKED_AT = dict.fromkeys(TRAIN, 1504176606) | dict.fromkeys(TEST, 1504176627)
"""The time in each published file's header, 31 August 2017, in seconds since 1970."""
ORIGINS = "origins.csv"
HEADER, HAS_NAME = 10, 8
"""The length of a gzip header without optional fields, and the flag of one with a file name."""

Bytes = NDArray[np.uint8]


def official(folder: Path, name: str) -> bytes:
    """Return the content of an official file, after checking its md5."""
    packed = (folder / (name + ZIPPED)).read_bytes()
    for candidate in (packed, with_name(packed, name)):
        if hashlib.md5(candidate).hexdigest() == MD5[name]:
            return gzip.decompress(candidate)
    sys.exit(f"{folder / (name + ZIPPED)} is not the official file: its md5 should be {MD5[name]}")


def with_name(packed: bytes, name: str) -> bytes:
    """Put the file's name and time back into a gzip header that has been stripped of them."""
    start = packed[:3] + bytes([HAS_NAME]) + struct.pack("<I", PACKED_AT[name])
    return start + packed[8:HEADER] + name.encode() + b"\0" + packed[HEADER:]


def first_of_each_class(y: Bytes, n: int = IMAGES) -> NDArray[np.intp]:
    """Return the places of the first n labels of each class, class after class."""
    return np.concatenate([np.flatnonzero(y == label)[:n] for label in range(len(NAMES))])


def idx(values: Bytes) -> bytes:
    """Lay out an array as an idx file of bytes, compressed to the same bits at any time."""
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return gzip.compress(header + values.tobytes(), 9, mtime=0)


def digest(image: Bytes) -> str:
    """Return the first 16 digits of the SHA-256 of an image's 784 bytes."""
    return hashlib.sha256(image.tobytes()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    rows = ["part,class,index,digest"]
    for part, (images, labels) in (("train", TRAIN), ("test", TEST)):
        x = np.frombuffer(official(folder, images), np.uint8, offset=16).reshape(-1, 28, 28)
        y = np.frombuffer(official(folder, labels), np.uint8, offset=8)
        places = first_of_each_class(y)
        (EMBEDDED / (images + ZIPPED)).write_bytes(idx(x[places]))
        (EMBEDDED / (labels + ZIPPED)).write_bytes(idx(y[places]))
        rows += [f"{part},{y[place]},{place},{digest(x[place])}" for place in places]
    (EMBEDDED / ORIGINS).write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
