"""The examples run as they stand."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers.own_code import forgetful

pytestmark = pytest.mark.journey

EXAMPLES = Path(__file__).parents[1] / "examples"
EXECUTED = {
    *("add_classes.py", "own_loop.py", "own_method.py", "reproduce_a_table.py"),
    *("replay_loop.py", "replay_loop_with_bn_tricks.py"),
    "clothes.py",
    "diagnose_a_model.py",  # in tests/doctor
    "my_method.py",  # in tests/test_imports.py, and with my_study.toml in tests/cli
}


@pytest.fixture
def printed_by(request, tmp_path, monkeypatch, capsys):
    """What a script prints that is run in this process, without the wait for torch."""
    request.getfixturevalue(forgetful.__name__)  # what a script registers goes with it
    monkeypatch.chdir(tmp_path)

    def run(script):
        with torch.random.fork_rng():
            runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_no_example_is_left_out():
    assert {path.name for path in EXAMPLES.glob("*.py")} == EXECUTED


@pytest.mark.slow
def test_a_table_of_the_paper_is_reproduced_and_reported(tmp_path):
    script = EXAMPLES / "reproduce_a_table.py"
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("seed 1: ACC") == 4
    for method in ("ER", "ER-Balance-Batch", "ER-Cur+Buf", "ER-Cur+Prev"):
        assert f"| {method} |" in done.stdout
    assert (tmp_path / "table-1" / "report.html").stat().st_size > 0
    assert len(list(tmp_path.glob("table-1/*/record.json"))) == 8


@pytest.mark.slow
def test_a_table_that_cannot_be_reproduced_is_a_line_for_each_run(tmp_path):
    command = [sys.executable, EXAMPLES / "reproduce_a_table.py", "--data", "nowhere"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("er-cur+prev, seed 1: ")
    assert "the data folder nowhere does not exist" in last
    assert len(done.stderr.splitlines()) == 8
    assert "Traceback" not in done.stderr


def test_bn_tricks_in_a_strangers_loop_takes_under_forty_lines_and_learns(printed_by):
    script = EXAMPLES / "own_loop.py"
    assert len(script.read_text().splitlines()) < 40
    assert float(re.search(r"([\d.]+)%", printed_by(script))[1]) > 90


def test_a_replay_loop_is_ported_and_still_learns(printed_by):
    for script in ("replay_loop.py", "replay_loop_with_bn_tricks.py"):
        assert float(re.search(r"([\d.]+)%", printed_by(EXAMPLES / script))[1]) > 70


def test_a_method_of_ones_own_gets_its_bn_tricks_form(printed_by):
    printed = printed_by(EXAMPLES / "own_method.py")
    assert "sharp-er-bnt: CE(B_t) + CE(B_M) + 0.5·Sharp(B_M) with φ from B_b" in printed
    assert printed.count("ACC") == 2


def test_classes_are_added_to_a_trained_network(printed_by):
    printed = printed_by(EXAMPLES / "add_classes.py")
    before, after, new = map(float, re.findall(r"([\d.]+)%", printed))
    assert before > 90
    assert after > 60
    assert new > 80
    assert "each digit is: 0" in printed


def test_clothes_are_folders_that_a_model_can_learn(printed_by, tmp_path):
    assert printed_by(EXAMPLES / "clothes.py") == "written to clothes\n"
    made = tmp_path / "clothes"
    counts = {path.name: len([*path.iterdir()]) for path in [*made.glob("*/*/"), made / "wardrobe"]}
    assert counts == dict.fromkeys(("Trouser", "Dress", "Sandal", "Pullover", "Bag"), 100) | {
        "wardrobe": 15
    }
