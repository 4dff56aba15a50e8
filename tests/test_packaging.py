"""The wheel stands on its own: installed in a fresh environment, run from an empty folder. It is
small, and carries the images that are embedded with their licence. The Makefile sets itself up with
the Python that is there, or says what is missing. No module needs what only Unix has."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bntricks.errors import EXTRAS

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
    subprocess.run([*install, f"{wheel}[all]"], check=True)

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


@pytest.fixture
def set_up(tmp_path):
    """Let a new clone set itself up, by a Python that a shell script stands in for."""

    def run(script, target=".venv/.ready"):
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, tmp_path)
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        python.chmod(0o755)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        command = ["make", f"PYTHON={python}", target]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_a_python_that_cannot_make_environments_is_answered_with_what_to_install(set_up):
    made = set_up('test "$1" = -c')
    assert made.returncode == 2
    assert "apt install python3-venv" in made.stderr.splitlines()[0]


def test_a_python_that_is_too_old_is_answered_with_the_one_that_is_needed(set_up):
    made = set_up("exit 1")
    assert made.returncode == 2
    assert made.stderr.splitlines()[0].startswith("Python 3.11 or newer is needed: make PYTHON=")


@pytest.mark.slow
def test_a_python_without_venv_that_refuses_to_install_beside_its_own_packages_will_do(
    set_up, tmp_path
):
    refused = 'case "$*" in "-m venv"*|*--user*|*break-system*) exit 1;; esac'
    made = set_up(f'{refused}; exec {sys.executable} "$@"', target="build/uv/bin/uv")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "build/virtualenv").is_dir()
    assert subprocess.run([tmp_path / "build/uv/bin/uv", "--version"]).returncode == 0


def test_without_extras_the_readme_s_python_runs_and_the_rest_is_one_line():
    light = [sys.executable, ROOT / "tests" / "light.py", "hide"]
    done = subprocess.run(light, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_comes_with_an_extra_is_declared_in_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    packages = {"sklearn": "scikit-learn", "vl_convert": "vl-convert-python"}
    for module, extra in EXTRAS.items():
        declared = {Requirement(each).name.replace("-", "_") for each in extras[extra]}
        assert packages.get(module, module).replace("-", "_") in declared
    base = {Requirement(each).name for each in project["dependencies"]}
    assert not base & {packages.get(module, module) for module in EXTRAS}


ELSEWHERE = """
import importlib, os, pkgutil, signal, sys
import altair, numpy, onnxscript, pooch, ray, scipy, sklearn, torch, vl_convert  # not ours to judge
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM"):
    delattr(signal, name)
for name in ("fork", "geteuid", "getuid", "killpg", "sched_getaffinity", "setsid", "uname"):
    delattr(os, name)
import bntricks, bntricks.cli
for name in bntricks.__all__:
    getattr(bntricks, name)
names = [each.name for each in pkgutil.walk_packages(bntricks.__path__, "bntricks.")]
names.remove("bntricks.__main__")
for name in names:
    importlib.import_module(name)
from bntricks.sweeps.local import available_cores
assert available_cores() == os.cpu_count()
print(len(names))
sys.argv = ["bnt", "run", "--method", "sgd", "--stream", "seq-digits", "--help"]
bntricks.cli.main()
"""


def test_modules_import_where_nothing_of_unix_is_there():
    command = [sys.executable, "-c", ELSEWHERE]
    imported = subprocess.run(command, capture_output=True, text=True)
    assert imported.returncode == 0, imported.stderr
    assert int(imported.stdout.split()[0]) > 100
    assert "Train one method" in imported.stdout
