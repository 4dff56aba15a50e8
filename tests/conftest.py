"""Shared by all tests: one thread, a private cache, and, in `make test-all`, no skipping."""

import gc
import os
import shutil
import signal

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # and so do processes that tests start: more would fight
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
os.environ.pop("PYTHONUNBUFFERED", None)  # it would hide what is written last from tests of output
# A busy machine is no reason to fail, and neither is another day.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    os.environ["BNT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("BNT_DATA", None)


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_disks_and_pixels():
    """Only a power failure tells whether something was synchronised, and here is none. Tests of the
    order in which files are synchronised, or of a disk that refuses, bring a function of their own.
    Two thirds of the time of a figure are the pixels of its PNG."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: os.fstat(descriptor) and None)
        patch.setattr("bntricks.report.files.PIXELS_PER_INCH", 20)
        yield


@pytest.fixture
def one_process(monkeypatch):
    """Sweeps train in this process, one run after another: a worker takes seconds to import torch.
    Workers have tests of their own."""
    from bntricks.sweeps import local

    def in_turn(trainings, shared, workers, sink):
        return [outcome(training, shared, index, sink) for index, training in enumerate(trainings)]

    def outcome(training, shared, index, sink):
        try:
            return local.train_one(
                training, shared, (), lambda event: sink({"run": index, **event})
            )
        except Exception as error:
            return local.failure(training.config, error)

    monkeypatch.setattr(local, "_side_by_side", in_turn)


@pytest.fixture(scope="session")
def browser():
    """A real one, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield started
        started.close()


def pytest_collection_finish():
    """What was imported and collected stays: looking through it again and again is in vain."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get("BNT_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where everything must run: {report.longrepr}"
    return report
