"""seq-digits: the 1,797 handwritten digits that come with scikit-learn, for first steps and tests.
8×8 grey images, two digits a task; every fifth image of a digit is for testing.
"""

import numpy as np
import torch

from bntricks.errors import extra
from bntricks.streams.files.dataset import Split, in_memory
from bntricks.streams.registry import OpenOptions, StreamInfo, stream
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import in_blocks_of, make_stream


@stream(
    "seq-digits",
    summary="scikit-learn's handwritten digits, grey; no download, minutes on a CPU",
    tasks="5 × 2",
    image_size=8,
    memory=100,
    data="embedded",
)
def seq_digits(info: StreamInfo, options: OpenOptions) -> Stream:
    with extra(option="stream", value=info.name):
        from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(np.rint(pixels * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8))
    by_digit = [x[torch.from_numpy(labels == digit)] for digit in range(10)]
    train = [images[torch.arange(len(images)) % 5 != 4] for images in by_digit]
    test = [images[4::5] for images in by_digit]
    dataset = in_memory(
        Split(torch.cat(train), tuple(map(len, train))),
        Split(torch.cat(test), tuple(map(len, test))),
        [str(digit) for digit in range(10)],
    )
    return make_stream(
        info.name,
        dataset,
        in_blocks_of(10, 2),
        pad=1,
        memory=info.memory,
    )
