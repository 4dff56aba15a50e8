"""A study that is killed half-way goes on where it was."""

import subprocess
import sys

import pytest

from helpers.command_line import bnt
from helpers.sameness import STUDY, results, tables, until

pytestmark = [pytest.mark.fault, pytest.mark.slow]


def test_a_killed_study_repeats_no_finished_run_and_ends_the_same(tmp_path):
    undisturbed = bnt(*STUDY, "--workers", "2", "--out", "whole", cwd=tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr
    command = [*STUDY, "--workers", "2", "--out", "killed", "--checkpoint-seconds", "0"]

    def finished():
        return {path: path.read_bytes() for path in tmp_path.glob("killed/*/record.json")}

    process = subprocess.Popen([sys.executable, "-m", "bntricks", *command], cwd=tmp_path)
    until(lambda: len(finished()) >= 4 or process.poll() is not None, "no run was finished")
    process.kill()
    assert process.wait() == -9, "it ended before it could be killed"
    before = finished()
    assert 4 <= len(before) < 8

    again = bnt(*command, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert before.items() <= finished().items(), "a finished run was repeated"
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert len(results(tmp_path / "killed")) == 8
    assert tables(again.stdout) == tables(undisturbed.stdout)
