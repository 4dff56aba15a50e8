"""Help and mistakes: what a newcomer is shown, and how much of it."""

import re

import pytest

from bntricks.cli.app import COMMANDS, RARE, RARELY, app, example
from bntricks.methods import entries
from bntricks.paper import study_names
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from helpers.command_line import bnt, refused

pytestmark = pytest.mark.journey

NARROW = {"COLUMNS": "80"}


def panels(*words, cwd):
    """Titles of the panels of a help, in order, with the flags or commands in each."""
    done = bnt(*words, cwd=cwd, **NARROW)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    parts = re.split(r"^╭─ (.*?) ─*╮$", done.stdout, flags=re.MULTILINE)
    names = (re.findall(r"^│ (?:\*  )?([\w-]+)", part, re.MULTILINE) for part in parts[2::2])
    return dict(zip(parts[1::2], names, strict=True)), done.stdout


def test_commands_are_in_groups_by_what_a_reader_wants_to_do(tmp_path):
    shown, text = panels("--help", cwd=tmp_path)
    assert list(shown) == ["Start", "Train", "Look", "Deploy", "Keep", "Check", "Everywhere"]
    assert [name for names in shown.values() for name in names] == [
        name for names in COMMANDS.values() for name in names
    ]
    assert len(text.splitlines()) < 60


def test_every_command_is_in_one_group():
    grouped = [name for names in COMMANDS.values() for name in names]
    assert sorted(grouped) == sorted({*app} - {"-h", "--help-all"})


def test_help_shows_what_runs_often_need_and_help_all_the_rest(tmp_path):
    often, text = panels("run", "--help", cwd=tmp_path)
    every, whole = panels("run", "--help-all", cwd=tmp_path)
    assert list(often) == [
        *("What is learned", "Data", "Training", "Network", "Output", "Where it is computed"),
    ]
    assert {title.removesuffix(RARE) for title in every} == set(often)
    assert len(text.splitlines()) <= 100 < len(whole.splitlines())
    assert RARELY.split(":")[0] in text
    for options in (Config, Request):
        for name in options.model_fields.keys() - {"save", "ranks"}:  # flags of the command
            role = options.role(name)
            flag = f"--{(role.flag if isinstance(role.flag, str) else name).replace('_', '-')}"
            assert sum(flag in flags for flags in every.values()) == bool(role.flag), flag
            often_needed = role.flag and not role.rare
            assert any(flag in flags for flags in often.values()) == bool(often_needed), flag
    assert "[default: 0.03]" in text
    assert "default: False" not in whole


@pytest.mark.parametrize("command", ["learn", "study", "sweep"])
def test_every_long_help_keeps_to_what_is_often_needed(command, tmp_path):
    often, text = panels(command, "--help", cwd=tmp_path)
    every, _ = panels(command, "--help-all", cwd=tmp_path)
    assert len(text.splitlines()) <= 100
    assert not any(title.endswith(RARE) for title in often)
    assert any(title.endswith(RARE) for title in every)


WORK = [name for names in COMMANDS.values() for name in names if not name.startswith("-")]
CONTENT = {"demo", "methods", "streams", "norms", "run", "check"}
"""Commands that need no argument."""


@pytest.mark.parametrize("command", sorted(set(WORK) - CONTENT))
def test_a_command_alone_says_what_it_needs_and_shows_an_example(command, tmp_path):
    done = bnt(command, cwd=tmp_path)
    refused(done, f"bnt: {command} needs ", f"; for example: bnt {command} ")
    assert done.stderr.count("\n") == 1
    app.parse_args(example(command).split()[1:], exit_on_error=False, print_error=False)


def test_only_what_is_missing_is_asked_for(tmp_path):
    done = bnt("rename-class", "model.safetensors", "cat", cwd=tmp_path)
    refused(done, "bnt: rename-class needs NEW; for example")


def test_a_mistyped_method_gets_three_suggestions(tmp_path):
    done = bnt("run", "--method", "err", cwd=tmp_path)
    refused(done, "unknown method 'err': did you mean er, der or der++?")
    assert "lwf" not in done.stderr
    done = bnt("run", "--method", "zzzzz", cwd=tmp_path)
    refused(done, f"bnt methods lists all {len(entries())}")


def test_the_help_of_study_names_every_study(tmp_path):
    words = bnt("study", "--help", cwd=tmp_path).stdout.replace(",", " ").replace(".", " ").split()
    assert set(study_names()) <= set(words)
