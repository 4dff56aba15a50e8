"""seq-digits: the 1,797 handwritten digits that come with scikit-learn, for first steps and tests.
8×8 grey images, two digits a task; every fifth image of a digit is for testing.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from bntricks.streams.files.decoded import Part, in_memory, resize_in_memory, scaled_pad
from bntricks.streams.registry import Known, Options, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import arrange, first_task_moments, in_blocks_of

PAD = 1


@stream(
    "seq-digits",
    summary="scikit-learn's handwritten digits, grey; no download, minutes on a CPU",
    tasks="5 × 2",
    image_size=8,
    memory=100,
    data="embedded",
)
def seq_digits(known: Known, options: Options) -> Stream:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x = np.rint(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    per_class = [np.flatnonzero(labels == digit) for digit in range(10)]
    native = in_memory(
        _part(x, [rows[np.arange(len(rows)) % 5 != 4] for rows in per_class]),
        _part(x, [rows[4::5] for rows in per_class]),
        [str(digit) for digit in range(10)],
    )
    decoded = resize_in_memory(native, options.image_size)
    tasks, class_names = arrange(decoded, in_blocks_of(10, 2), options.images_per_class)
    mean, std = first_task_moments(tasks)
    return Stream(
        known.name,
        tasks,
        class_names,
        mean,
        std,
        decoded.fingerprint,
        pad=scaled_pad(PAD, known.image_size, options.image_size),
        memory=known.memory,
    )


def _part(x: NDArray[np.uint8], rows: list[NDArray[np.int64]]) -> Part:
    return Part(torch.from_numpy(x[np.concatenate(rows)]), tuple(len(r) for r in rows))
