"""A real browser for the pages of reports."""

import os
import shutil

import pytest

FLAGS = [
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield started
        started.close()
