"""Shared by all tests: one thread, a private cache, and, in `make test-all`, no skipping."""

import os
import shutil

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # and so do processes that tests start: more would fight
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get("BNT_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where everything must run: {report.longrepr}"
    return report
