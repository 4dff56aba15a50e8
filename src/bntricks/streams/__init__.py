"""Streams: data as a sequence of tasks. `open_stream` opens one by its name, `from_arrays` and
`from_dataset` make one of samples in memory, `rearrange` makes another of its images, and STREAMS
lists those with a name.
"""

from bntricks.streams.augment import View
from bntricks.streams.files.progress import OnProgress
from bntricks.streams.rearrange import rearrange
from bntricks.streams.registry import STREAMS, StreamInfo, open_stream
from bntricks.streams.sources.arrays import from_arrays
from bntricks.streams.sources.datasets import from_dataset
from bntricks.streams.stream import Images, Stream, Task

__all__ = [
    "STREAMS",
    "Images",
    "OnProgress",
    "Stream",
    "StreamInfo",
    "Task",
    "View",
    "from_arrays",
    "from_dataset",
    "open_stream",
    "rearrange",
]
