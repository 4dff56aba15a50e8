"""The list of mutants keeps up with the source. `make mutants` applies them."""

import ast
import shutil
import sys

import pytest

from mutants import ROOT, exit_code, mutants

MUTANTS = mutants()


def test_forty_places_are_broken_each_once():
    assert len(MUTANTS) >= 40
    assert len({(each.file, each.broken) for each in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("file", sorted({each.file for each in MUTANTS}))
def test_every_mutant_changes_one_place_to_other_code(file):
    source = (ROOT / "src" / "bntricks" / file).read_text(encoding="utf-8")
    for mutant in MUTANTS:
        if mutant.file == file:
            assert source.count(mutant.text) == 1, mutant
            broken = ast.parse(source.replace(mutant.text, mutant.broken))
            assert ast.dump(broken) != ast.dump(ast.parse(source)), mutant


def test_every_mutant_names_tests_that_there_are():
    for test in {test for each in MUTANTS for test in each.tests}:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name.partition("[")[0] in names, test


@pytest.mark.slow
def test_a_mutant_is_caught_by_a_test_that_fails_and_by_nothing_else(tmp_path, monkeypatch):
    """The runner itself: of a package that is whole, broken, or cannot be imported."""
    for name in [*sys.modules]:  # also of tests, which hold what they have imported
        if name.partition(".")[0] in ("bntricks", "conftest", "helpers", "tests"):
            monkeypatch.delitem(sys.modules, name)
    shutil.copytree(ROOT / "src", tmp_path, dirs_exist_ok=True)
    intervals, codes = tmp_path / "bntricks" / "intervals.py", []
    whole = intervals.read_text()
    for changed in (whole, whole.replace("0.95", "0.9"), "import nothing_of_the_kind"):
        intervals.write_text(changed)
        codes.append(exit_code(tmp_path, ["test_intervals.py"]))
    assert codes[:2] == [0, 1]
    assert codes[2] not in (0, 1)
