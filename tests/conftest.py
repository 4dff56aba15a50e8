"""Shared by all tests: one thread, a private cache, and, in `make test-all`, no skipping."""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # and so do processes that tests start: more would fight
# A busy machine is no reason to fail, and neither is another day.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    os.environ["BNT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("BNT_DATA", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get("BNT_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where everything must run: {report.longrepr}"
    return report
