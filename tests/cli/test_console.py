"""No text from elsewhere can do more to a terminal than appear on it."""

import io

import pytest
from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable

from bntricks.cli import console, training
from bntricks.cli.training import Board
from bntricks.report.groups import group
from bntricks.report.tables.results import results_table
from bntricks.report.tables.table import to_rich
from bntricks.runs.config import Config
from helpers.records import a_run

HOSTILE = "er\x1b]0;title\x07\x1b[2J\x9b31m\r\u202ex"
ESCAPED = r"er\x1b]0;title\x07\x1b[2J\x9b31m\r\u202ex"

pytestmark = pytest.mark.fault


def test_plain_lines_escape_what_does_not_print(capsys):
    console.say(f"{HOSTILE}\nsecond line, 9 ± 1 – φ")
    console.complain(HOSTILE)
    out, err = capsys.readouterr()
    assert out == f"{ESCAPED}\nsecond line, 9 ± 1 – φ\n"
    assert err == f"bnt: {ESCAPED}\n"


def test_tables_escape_what_does_not_print(capsys):
    console.show(["name", "x"], [[HOSTILE, 1.0]], title=HOSTILE)
    console.out.print(to_rich(results_table(group([a_run(HOSTILE)]))))
    out, _ = capsys.readouterr()
    assert out.count(r"er\x1b]0;title\x07\x1b[2J") == 3
    assert all(line.isprintable() for line in out.splitlines())


def test_progress_and_the_table_of_a_sweep_escape_it_too(capsys):
    with console.progress() as sink:
        sink({"event": "warning", "text": HOSTILE})
    console.err.print(Board([Config(method=HOSTILE), Config(method="er", seed=1)]))
    _, err = capsys.readouterr()
    assert err.count(r"er\x1b]0;title\x07\x1b[2J") == 1
    assert err.count(r"er\x1b]0;title\x1b[2J") == 1  # Rich drops bells itself
    assert all(line.isprintable() for line in err.splitlines())


def test_our_own_colours_and_cursor_remain():
    terminal = type(console.out)(file=io.StringIO(), force_terminal=True, width=60)
    table = RichTable("[bold]name")
    table.add_row(console.escape(HOSTILE))
    with Live(table, console=terminal):
        pass
    text = terminal.file.getvalue()
    assert "\x1b[1m" in text  # bold
    assert "\x1b[?25l" in text  # the cursor is hidden meanwhile
    assert not any(each in text for each in ("\x1b]0", "\x1b[2J", "\x9b", "\x07"))


def test_without_a_terminal_long_work_is_told_now_and_then(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    position = {"epoch": 1, "epochs": 2, "loss": 0.5, "steps": 100}
    with console.reporting() as report:
        for clock[0], done in ((1.0, 10), (21.0, 20), (22.0, 30)):
            report("decoding images", done, 90)
    with console.progress(lines=True) as sink:
        for clock[0], step in ((23.0, 1), (30.0, 5), (43.0, 8), (44.0, 9)):
            sink({"event": "progress", "step": step, **position})
        sink({"event": "epoch", "step": 50, **position})
        sink({"event": "warning", "text": "look out"})
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "bnt: decoding images: 20 of 90, 21 s",
        "bnt: epoch 1/2, loss 0.500, 21 s, about 242 s left",
        "bnt: epoch 1/2, loss 0.500, 22 s, about 22 s left",
        "bnt: look out",
    ]


def test_without_a_terminal_a_run_is_told_now_and_then_ever_more_rarely(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    position = {"task": 2, "of": 5, "epoch": 1, "epochs": 2, "loss": 0.5, "steps": 36_000}
    with console.progress() as sink:
        for second in range(1, 36_001):
            clock[0] = float(second)
            kind = "epoch" if second % 100 == 0 else "progress"
            sink({"event": kind, "step": second, **position})
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "bnt: task 2/5, epoch 1/2, loss 0.500, 20 s, about 35980 s left"
    assert 50 < len(told) < 150


def test_without_a_terminal_many_runs_are_told_now_and_then(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(training.time, "monotonic", lambda: clock[0])
    with training.board([Config(seed=0), Config(seed=1)]) as sink:
        for second in range(100):
            clock[0] = float(second)
            sink({"event": "progress", "run": 0, "step": second, "steps": 100})
        sink({"event": "finished", "run": 0, "acc": 50.0, "bwt": None, "already_there": False})
    *running, last = capsys.readouterr().err.splitlines()
    assert len(running) == 4
    assert all(line.startswith("0 of 2 runs, about 0:0") for line in running)
    assert last.startswith("er-bnt on seq-cifar10, seed 0")


def test_a_wide_matrix_is_shown_in_parts_that_fit_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr(console, "out", Console(width=60, highlight=False))
    tasks = 20
    console.matrix([[50.0 if j <= i else None for j in range(tasks)] for i in range(tasks)])
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if "accuracy %" in line]
    assert len(heads) > 1
    assert [word for head in heads for word in head.split() if word.isdigit()] == [
        str(task + 1) for task in range(tasks)
    ]
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("after 20") for line in lines) == len(heads)
