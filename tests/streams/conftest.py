"""Settings and processes that tests of streams share."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.official import Official
from helpers.processes import Process


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, and none of the user's settings."""
    for name in ("BNT_DATA", "BNT_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("BNT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def warned():
    """What `open_stream(warn=...)` was told."""
    return []


@pytest.fixture
def heard():
    """A report that remembers what it was told."""

    class Heard(list):
        def __call__(self, what, done, total):
            self.append((what, done, total))

        @property
        def work(self):
            return {what.split()[0] for what, _, _ in self}

    return Heard()


@pytest.fixture(scope="session")
def official():
    return Official


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A Tiny-ImageNet folder that tests share and do not change."""
    return Official.tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def held_builder():
    """Start a process that opens a stream and stops in the middle of decoding it until the file
    `go` is there; returns once it is that far."""
    started = []

    def start(stream: str, data: Path, go: Path) -> Process:
        script = f"""
import pathlib, time
from bntricks.streams import open_stream
def report(what, done, total):
    if what.startswith("decoding") and done:
        print("decoding", flush=True)
        while not pathlib.Path({str(go)!r}).exists():
            time.sleep(0.01)
print(open_stream({stream!r}, data={str(data)!r}, report=report).fingerprint)
"""
        process = Process(script=script, cwd=data)
        started.append(process)
        assert process.stdout.readline() == "decoding\n"
        return process

    yield start
    for process in started:
        with process:
            process.kill()
