"""Several commands on one folder, as real processes that are really killed: together they do what
one does, and `bnt status` says how far they are."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bntricks.errors import UserError
from bntricks.files import is_held
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps.estimate import Planned, StepCost, elapsed, kind_of, planned, read_costs
from bntricks.sweeps.status import known_seconds, seconds_to_go, status, write_plan
from helpers.command_line import bnt, refused
from helpers.pages import ROOT
from helpers.sameness import STUDY, results, tables, until

pytestmark = pytest.mark.fault

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
TINY |= {"images_per_class": 10}
SHARED = [*STUDY, "--workers", "1", "--checkpoint-seconds", "0"]


LONG = ["--epochs", "20"]


def command(*flags, cwd, **environment):
    words = [sys.executable, "-m", "bntricks", *SHARED, *flags, "--out", "shared"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, cwd=cwd, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")
def test_commands_share_a_folder_and_whoever_is_left_finishes_what_a_killed_one_held(tmp_path):
    alone = bnt(*STUDY, *LONG, "--workers", "2", "--out", "alone", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    commands = [command(*LONG, cwd=tmp_path) for _ in range(3)]

    def holders():
        runs = []
        with suppress(UserError):  # at the beginning
            runs = status(tmp_path / "shared")
        return {run.run: run.process for run in runs if run.state == "running"}

    until(lambda: len(set(holders().values())) == 3, "three processes never worked together")
    commands[0].kill()
    ends = [each.communicate(timeout=300) for each in commands]
    assert [each.returncode for each in commands] == [-9, 0, 0], ends
    assert results(tmp_path / "shared") == results(tmp_path / "alone")
    for out, _ in ends[1:]:
        assert tables(out) == tables(alone.stdout)
    assert (tmp_path / "shared" / "report.html").is_file()
    trained = [
        line
        for path in tmp_path.glob("shared/*/log.jsonl")
        for line in path.read_text().splitlines()
        if json.loads(line)["event"] == "end"
    ]
    assert len(trained) == 8, "a finished run was trained twice"
    done = json.loads(bnt("status", "shared", "--json", cwd=tmp_path).stdout)
    assert (done["done"], done["running"], done["left"], done["failed"]) == (8, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_study_loses_no_step(tmp_path, number):
    long = ["--epochs", "200", "--checkpoint-seconds", "1000"]
    study = [word for word in SHARED if word not in ("--checkpoint-seconds", "0")]
    words = [sys.executable, "-m", "bntricks", *study, *long, "--out", "shared"]
    started = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    logs = partial(tmp_path.glob, "shared/*/log.jsonl")
    until(lambda: any('"event": "epoch"' in log.read_text() for log in logs()), "nothing begun")
    started.send_signal(number)
    _, errors = started.communicate(timeout=100)
    assert started.returncode == 128 + number
    assert errors.splitlines()[-1].endswith("repeat the command to go on from here")
    assert "Traceback" not in errors
    assert list(tmp_path.glob("shared/*/checkpoint.newest"))


@pytest.mark.slow
def test_a_time_limit_ends_with_a_checkpoint_and_the_same_command_goes_on(tmp_path):
    flags = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    flags += ["--methods", "er", "--epochs", "60", "--workers", "1"]
    codes = []
    for _ in range(20):
        done = bnt(*flags, "--time-limit", "8s", "--checkpoint-seconds", "1000", cwd=tmp_path)
        codes.append(done.returncode)
        if done.returncode != 4:
            break
        assert "the time limit has come with 1 run unfinished" in done.stderr
    assert codes[-1] == 0, done.stderr
    if len(codes) > 1:  # this machine was not too fast for it
        log = next(tmp_path.glob("runs/*/log.jsonl")).read_text()
        assert '"resumed"' in log


@pytest.mark.slow
def test_shards_are_the_whole_and_the_last_one_writes_the_report(tmp_path):
    flags = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    first = bnt(*flags, "--shard", "1/2", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "shard 1/2 is done, 2 runs of others left" in first.stderr
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 2
    assert not (tmp_path / "runs" / "report.html").exists()
    last = bnt(*flags, "--shard", "2/2", cwd=tmp_path)
    assert last.returncode == 0, last.stderr
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 4
    assert (tmp_path / "runs" / "report.html").exists()


def array_script():
    """The script that docs/cluster.md prints for a Slurm array."""
    text = (ROOT / "docs" / "cluster.md").read_text()
    block = re.search(r"```bash\n(#!/bin/bash\n#SBATCH --array.*?)```", text, re.S)
    return block[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Slurm's")
def test_the_array_script_of_the_docs_works_as_printed(tmp_path):
    (tmp_path / "array.sh").write_text(array_script())
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = f'#!/bin/sh\nexec {sys.executable} -m bntricks "$@"\n'
    (tools / "bnt").write_text(tool)
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/scontrol.log\n')
    for each in tools.iterdir():
        each.chmod(0o755)

    def task(number, **environment):
        own = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(number), **environment}
        path = {"PATH": f"{tools}:{os.environ['PATH']}"}
        words = ["bash", "array.sh", *STUDY[1:], "--workers", "1", "--out", "runs"]
        return subprocess.Popen(words, cwd=tmp_path, env=os.environ | path | own)

    assert task(1, LIMIT="1s").wait(300) == 4
    assert (tmp_path / "scontrol.log").read_text() == "requeue 7_1\n"
    tasks = [task(number) for number in (1, 2)]
    assert [each.wait(300) for each in tasks] == [0, 0]
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 8
    assert (tmp_path / "runs" / "report.html").is_file()


HOLD = """
import sys
from pathlib import Path
from bntricks.files import held
with held(Path("run"), lock=Path("run/lock")):
    Path("ready").touch()
    sys.stdin.read()
"""


def test_a_lock_is_seen_without_being_taken(tmp_path):
    (tmp_path / "run").mkdir()
    assert not is_held(tmp_path / "run" / "lock")
    (tmp_path / "run" / "lock").touch()  # which a killed process has left
    assert not is_held(tmp_path / "run" / "lock")
    words = [sys.executable, "-c", HOLD]
    holder = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE)
    until((tmp_path / "ready").exists, "nobody held it")
    assert is_held(tmp_path / "run" / "lock")
    holder.kill()
    holder.wait()
    assert not is_held(tmp_path / "run" / "lock")


def a_plan(out, *seconds):
    configs = [Config(method="er", seed=seed, **TINY) for seed in range(len(seconds))]
    plan = [
        Planned(config, out / f"run{config.seed}", there=False, known_seconds=each)
        for config, each in zip(configs, seconds, strict=True)
    ]
    write_plan(out, "pilot", plan, [f"er, seed {config.seed}" for config in configs])
    return plan


def begun(folder, process, *events, began=100.0, seen=120.0):
    folder.mkdir()
    begin = {"event": "begin", "config": {}, "process": process, "time": began}
    lines = [begin, *events]
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "ep')
    os.utime(log, (seen, seen))


def test_the_state_of_each_run_is_read_off_its_files(tmp_path):
    a_plan(tmp_path, 10.0, 20.0, 30.0)
    now = time.time()
    events = [
        {"event": "resumed", "step": 20, "steps": 100},
        {"event": "epoch", "step": 60, "steps": 100},
    ]
    begun(tmp_path / "run1", "there, process 7", *events, began=now - 40, seen=now)
    begun(tmp_path / "run2", "there, process 8", {"event": "epoch", "step": 1, "steps": 4})
    words = [sys.executable, "-c", HOLD.replace('"run', '"run1')]
    holder = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE)
    until((tmp_path / "ready").exists, "nobody held it")
    left, running, stopped = status(tmp_path)
    holder.kill()
    holder.wait()
    assert (left.state, left.seconds_left, left.name) == ("left", 10.0, "er, seed 0")
    assert (running.state, running.process, running.share) == ("running", "there, process 7", 0.6)
    assert running.seconds_left == pytest.approx(40.0, abs=5)  # 40 steps at one a second
    assert (stopped.state, stopped.share, stopped.seconds_left) == ("left", 0.25, 22.5)
    assert seconds_to_go([left, running, stopped]) == pytest.approx(72.5, abs=5)
    assert seconds_to_go([left, stopped]) is None


def test_estimates_of_earlier_plans_are_kept(tmp_path):
    a_plan(tmp_path, 10.0, 20.0)
    a_plan(tmp_path, 0.0, 25.0)  # the first run is there by now
    assert known_seconds(tmp_path) == {"run0": 10.0, "run1": 25.0}


def test_a_folder_without_runs_is_refused(tmp_path):
    refused(bnt("status", "nowhere", cwd=tmp_path), "nowhere is not a folder")
    refused(bnt("status", ".", cwd=tmp_path), "neither runs nor the plan of a study")


def test_a_dry_run_trains_nothing_and_its_output_is_a_table_of_costs(tmp_path):
    flags = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    dry = bnt(*flags, "--dry-run", "--json", "--devices", "4", "--device", "cpu", cwd=tmp_path)
    assert dry.returncode == 0, dry.stderr
    found = json.loads(dry.stdout)
    assert not list(tmp_path.iterdir())
    assert len(found["runs"]) == len(found["costs"]) == 4
    assert found["workers"] == 4
    assert found["elapsed_seconds"] == max(run["seconds"] for run in found["runs"])
    assert all(row["memory_mb"] > 10 for row in found["costs"])
    for row in found["costs"]:
        row["step_seconds"] = 3600.0
    (tmp_path / "costs.json").write_text(json.dumps(found))
    again = bnt(*flags, "--dry-run", "--costs", "costs.json", "--devices", "2", cwd=tmp_path)
    lines = again.stdout.splitlines()
    assert [line.split("MB  ")[1] for line in lines[:4]] == [
        run["command"] for run in found["runs"]
    ]
    assert lines[4].startswith("4 runs to train, 0 already there: ")


def test_the_commands_of_a_dry_run_are_the_runs_of_the_study(tmp_path):
    flags = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "1"]
    dry = bnt(*flags, "--methods", "er", "--out", "runs", "--dry-run", "--json", cwd=tmp_path)
    [run] = json.loads(dry.stdout)["runs"]
    done = bnt(*run["command"].split()[1:], "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["path"] == f"runs/{run['run']}"


def test_a_table_of_costs_is_matched_by_the_options_it_names(tmp_path):
    table = tmp_path / "costs.json"
    rows = [
        {"method": "er", "width": 4, "step_seconds": 1.0},
        {"method": "er", "step_seconds": 2.0, "memory_mb": 5},
    ]
    table.write_text(json.dumps(rows))
    config = Config(method="er", **TINY)
    [plan] = planned([config], Request(out=tmp_path), costs=read_costs(table))
    assert plan.cost == StepCost(2.0, 5)
    assert plan.seconds == 2.0 * plan.steps > 0
    assert kind_of(config)["width"] == 2
    for wrong in ('[{"method": "er"}]', "{}", '[{"step_seconds": 1, "size": 3}]', "[", "[3]"):
        table.write_text(wrong)
        with pytest.raises(UserError, match="is no table of costs"):
            read_costs(table)


def test_workers_take_the_next_run_in_turn():
    plan = [
        Planned(Config(), Path(), there=False, known_seconds=each) for each in (5.0, 1.0, 1.0, 4.0)
    ]
    assert elapsed(plan, 1) == 11.0
    assert elapsed(plan, 2) == 6.0
    assert elapsed(plan, 8) == 5.0


def test_a_run_that_another_process_finished_meanwhile_is_not_trained_again(tmp_path, monkeypatch):
    from bntricks.runs import folder

    config = Config(method="er", memory=10, **TINY)
    first = folder.run(config, Request(out=tmp_path))
    looked, usual = [], folder.finished

    def late(*args, **how):  # as if it had looked just before the other was done
        looked.append(1)
        return None if len(looked) == 1 else usual(*args, **how)

    monkeypatch.setattr(folder, "finished", late)
    events = []
    again = folder.run(config, Request(out=tmp_path), sink=events.append)
    assert again.already_there
    assert again.finished == first.finished
    assert not [event for event in events if event["event"] == "begin"]
