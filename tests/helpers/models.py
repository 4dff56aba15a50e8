"""Class folders of little JPEGs, a model that learned some, and the command line."""

import signal
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from bntricks.system.stopping import REQUESTS
from helpers.colours import FIRST, SECOND, pictures, write_folder


@pytest.fixture
def first(tmp_path):
    return write_folder(tmp_path / "first", FIRST)


@pytest.fixture
def second(tmp_path):
    return write_folder(tmp_path / "second", SECOND)


class Done:
    """What a command printed, and its exit code."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@contextmanager
def usual_signals():
    """Put back the handlers that a command replaces."""
    handlers = {number: signal.getsignal(number) for number in REQUESTS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture
def bnt(capfd, monkeypatch):
    """The command line in this process: parsing, errors and exit codes as a user meets them."""
    from bntricks.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bnt", *map(str, arguments)])
        try:
            with usual_signals(), warnings.catch_warnings():
                # cyclopts warns of what is done here on purpose
                warnings.filterwarnings("ignore", message="Cyclopts application invoked")
                main()
        except SystemExit as left:
            code = left.code
        captured = capfd.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(bnt):
    """A command that must fail: this code, one line with these words, nothing on stdout."""

    def run(*arguments, words=(), code=2):
        done = bnt(*arguments)
        assert done.code == code, done.err
        assert "Traceback" not in done.err
        assert len(done.err.strip().splitlines()) == 1, done.err
        for word in words:
            assert str(word) in done.err, done.err
        assert done.out == ""
        return done.err

    return run


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A model file that learned the first three colours."""
    from bntricks.model.create import create
    from bntricks.model.learn import teach
    from bntricks.model.samples import gather

    samples = gather({name: pictures(name) for name in FIRST}, size=8, held_out=0.2)
    learner = create(samples, width=4, blocks=1, stages=2, memory=24)
    teach(learner, samples, epochs=4, lr=None, sink=lambda event: None)
    path = tmp_path_factory.mktemp("taught") / "model.safetensors"
    learner.save(path)
    return path


@pytest.fixture
def model(taught, tmp_path):
    """A copy of it, to do with as one likes."""
    copy = tmp_path / "model.safetensors"
    copy.write_bytes(taught.read_bytes())
    return Path(copy)
