"""What would be published: a source distribution that a wheel can be built from, both with metadata
and a description that an index accepts."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.journey]

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both, the wheel built from the source distribution; pip pins what builds them."""
    folder = tmp_path_factory.mktemp("dist")
    pins = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    done = subprocess.run(command, env=os.environ | pins, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def test_twine_accepts_both(built):
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *built]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_has_every_file_of_the_package(built):
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.joinpath("bntricks").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(built[1]).namelist())
    assert expected == {name for name in names if name.startswith("bntricks/")}


def test_the_sources_come_with_their_licence_and_nothing_private(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not {name for name in names if name.startswith(("tests", "runs", ".venv"))}
