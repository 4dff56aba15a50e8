"""Versions: the pins install on the lowest Python declared, the environment has what is pinned, and
each version that is claimed has a test."""

import fcntl
import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from bntricks.errors import HeldError
from bntricks.files import held

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = (ROOT / "constraints.txt").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LOWEST = PROJECT["requires-python"].removeprefix(">=")
CUDA = re.compile(r"(cuda|nvidia)-|triton$")

PINS = {
    canonicalize_name(pin.name): pin
    for pin in map(Requirement, re.findall(r"^[^#\n].*", PINNED, flags=re.MULTILINE))
}


def requirements(name, extras):
    """The names of all packages that a package with these extras needs here, itself included."""
    pending, needed = [(canonicalize_name(name), frozenset(extras))], {}
    while pending:
        name, extras = pending.pop()
        if extras <= needed.get(name, frozenset()) and name in needed:
            continue
        needed[name] = needed.get(name, frozenset()) | extras
        for requirement in map(Requirement, metadata.requires(name) or []):
            environments = [{"extra": extra} for extra in extras or [""]]
            marker = requirement.marker
            if marker is None or any(marker.evaluate(values) for values in environments):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name in needed if not CUDA.match(name)}


def refusals(python, needs):
    """The packages, by name and Requires-Python, that refuse this Python."""
    return {name: need for name, need in needs.items() if python not in SpecifierSet(need or "")}


def differences(pins, installed):
    """The packages whose installed version is not the one that is pinned, and that version."""
    return {
        name: version
        for name, version in installed.items()
        if name in pins and not pins[name].specifier.contains(version, prereleases=True)
    }


def installed_pins():
    names = {canonicalize_name(each.name) for each in metadata.distributions()}
    return {name: metadata.distribution(name) for name in PINS if name in names}


def test_every_pin_that_is_installed_accepts_the_lowest_python():
    needs = {name: each.metadata["Requires-Python"] for name, each in installed_pins().items()}
    assert refusals(f"{LOWEST}.0", needs) == {}


def test_a_pin_that_needs_a_later_python_or_patch_release_is_found():
    needs = {"soupsieve": ">=3.11.5", "next": ">=3.12", "fits": ">=3.9", "silent": None}
    assert refusals("3.11.0", needs) == {"soupsieve": ">=3.11.5", "next": ">=3.12"}


def test_what_is_installed_is_what_is_pinned():
    installed = {name: each.version for name, each in installed_pins().items()}
    assert differences(PINS, installed) == {}


def test_a_version_that_is_not_the_pinned_one_is_found_and_any_build_of_it_fits():
    pins = {name: Requirement(f"{name}==2.13.0") for name in ("torch", "numpy")}
    installed = {"torch": "2.13.0+cpu", "numpy": "2.13.1", "unpinned": "1.0"}
    assert differences(pins, installed) == {"numpy": "2.13.1"}


def test_everything_the_tests_install_is_pinned():
    needed = requirements("bntricks", ["dev"])
    assert {"torch", "soupsieve", "sphinx"} <= needed
    assert needed - set(PINS) == {"bntricks"}, "run `make pins`"


def test_pins_hold_no_package_of_a_cuda_build_which_not_every_torch_needs():
    assert str(PINS["torch"].specifier).startswith("==")
    assert [name for name in PINS if CUDA.match(name)] == []


def test_the_pins_say_how_they_are_resolved_for_the_lowest_python():
    command = re.search(r"^PINS := (.*?[^\\])$", MAKEFILE, flags=re.MULTILINE | re.DOTALL)[1]
    in_head = re.search(r"^#   (uv .*?[^\\])$", PINNED, flags=re.MULTILINE | re.DOTALL)[1]
    assert in_head.replace("\n#", "\n").split() == command.split()
    assert f"--python-version {LOWEST}.0" in command


def test_the_pythons_claimed_are_those_that_make_tests():
    claimed = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: Python" in text]
    others = re.search(r"^PYTHONS \?= (.*)$", MAKEFILE, flags=re.MULTILINE)[1]
    assert claimed == [LOWEST, *others.split()]


@pytest.mark.law  # so that it runs with the lowest filelock, whose bound is this
def test_a_lock_file_that_its_holder_removed_meanwhile_locks_nothing(tmp_path, monkeypatch):
    lock, flock, others = tmp_path / ".model.lock", fcntl.flock, []

    def late(descriptor, operation):
        if operation & fcntl.LOCK_EX and not others:  # between opening the file and locking it:
            lock.unlink()  # its holder leaves, and another process makes a new one
            others.append(os.open(lock, os.O_RDWR | os.O_CREAT))
            flock(others[0], fcntl.LOCK_EX)
        return flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(HeldError), held(tmp_path / "model"):
        pass
    os.close(others[0])
