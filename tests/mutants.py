"""Break the source on purpose, one place at a time: does a test notice?

    python tests/mutants.py               # every mutant in mutants.toml
    python tests/mutants.py verdict LEVEL # those in whose file or text one of these words is

Each line of `mutants.toml` is a file of the package, some of its text, what the text is replaced
by, and the tests that must fail then. They run on a copy of the source, each in a process forked
from this one, which has imported what is slow. Exits 1 if a mutant survives.
"""

import os
import shutil
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLOW_TO_IMPORT = ("torch", "numpy", "scipy.stats", "pydantic", "hypothesis", "sklearn.linear_model")
OUTPUT = "output.txt"
PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED


@dataclass(frozen=True)
class Mutant:
    """A change of one place in the source, and the tests that must notice it."""

    file: str
    text: str
    broken: str
    tests: tuple[str, ...]

    def __str__(self):
        return f"{self.file}: {self.text!r} -> {self.broken!r}"


def mutants(words=()):
    """Those of the list in which one of these words is; all without words."""
    rows = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))["mutants"]
    every = [Mutant(file, text, broken, tuple(tests)) for file, text, broken, *tests in rows]
    return [each for each in every if not words or any(word in str(each) for word in words)]


def exit_code(source, tests):
    """What pytest returns for these tests of the package in this folder."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        sys.path.insert(0, str(source))
        said = os.open(source / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        paths = [str(ROOT / "tests" / test) for test in tests]
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = int(pytest.main([*options, "--rootdir", str(ROOT), *paths]))
    finally:
        os._exit(code)


def verdict(mutant, source):
    """What became of a mutant, in a word or a few."""
    path = source / "bntricks" / mutant.file
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(mutant.text, mutant.broken), encoding="utf-8")
    try:
        code = exit_code(source, mutant.tests)
    finally:
        path.write_text(before, encoding="utf-8")
    return {PASSED: "SURVIVED", FAILED: "caught"}.get(code, f"tests could not run ({code})")


def main(words):
    os.chdir(ROOT)
    sys.dont_write_bytecode = True  # a file changed twice in a second would be taken for the same
    chosen = mutants(words)
    for name in SLOW_TO_IMPORT:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if code := exit_code(source, sorted({test for each in chosen for test in each.tests})):
            print((source / OUTPUT).read_text())
            sys.exit(f"the tests do not pass on the source as it is ({code})")
        verdicts = {}
        for each in chosen:
            verdicts[each] = verdict(each, source)
            print(f"{verdicts[each]:10} {each}", flush=True)
    missed = sum(each != "caught" for each in verdicts.values())
    print(f"{len(verdicts) - missed} of {len(verdicts)} mutants caught")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main(sys.argv[1:])
