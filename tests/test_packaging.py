"""The wheel stands on its own: installed in a fresh environment, run from an empty folder. It is
small, and carries the images that are embedded with their licence."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.journey

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_installs_in_a_fresh_environment_and_learns_what_is_embedded(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], check=True)
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.stat().st_size < 3_000_000
    licences = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/LICENSE")]
    assert sum("fashion-mnist" in name for name in licences) == 2  # beside the images, and declared

    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", fresh], check=True)
    install = [fresh / "bin/python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True)

    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def bnt(*arguments):
        command = [fresh / "bin/bnt", *arguments]
        return subprocess.run(
            command, cwd=empty, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "er-bnt" in bnt("methods")
    assert list(empty.iterdir()) == []
    small = ["--image-size", "8", "--images-per-class", "8", "--width", "2", "--epochs", "1"]
    assert "task 5" in bnt("run", "--stream", "seq-fashion", *small)
