"""The wheel stands on its own: installed in a fresh environment, run from an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.journey

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_installs_in_a_fresh_environment_and_lists_its_methods(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], check=True)
    wheel = next(tmp_path.glob("*.whl"))

    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", fresh], check=True)
    install = [fresh / "bin/python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, wheel], check=True)

    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [fresh / "bin/bnt", "methods"]
    done = subprocess.run(
        command, cwd=empty, env=environment, capture_output=True, text=True, check=True
    )
    assert "er-bnt" in done.stdout
    assert list(empty.iterdir()) == []
