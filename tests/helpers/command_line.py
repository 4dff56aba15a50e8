"""The command line in this process or in one of its own, and what its failures have in common."""

import io
import os
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest import mock

import numpy as np

from helpers.models import usual_signals
from helpers.processes import completed

SMALL = ["--width", "2", "--blocks", "1", "--stages", "2", "--epochs", "1"]
DIGITS = ["--stream", "seq-digits", "--images-per-class", "24", *SMALL]


def bnt(*arguments, cwd, **environment):
    """The command as a user types it, without the seconds that a process takes to import torch."""
    from bntricks.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    words = ["bnt", *map(str, arguments)]
    with (
        chdir(cwd),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", words),
        usual_signals(),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Cyclopts application invoked")
        try:
            main()
        except SystemExit as end:
            code = end.code
    return CompletedProcess(words, code, *(_text(stream) for stream in (out, err)))


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


def process(*arguments, cwd, **environment):
    """The same in a process of its own: for what a process as a whole does."""
    return completed(*arguments, cwd=cwd, environment=environment)


def refused(done, *words, code=2):
    """A planned failure: this code, these words, no traceback, nothing on stdout."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert done.stdout == ""


def cifar10(folder, *, per_class=4, seed=0):
    """CIFAR-10 in its binary layout, tiny."""
    folder = folder / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
        pixels = random.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        (folder / name).write_bytes(np.hstack([labels[:, None], pixels]).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")
    return folder
