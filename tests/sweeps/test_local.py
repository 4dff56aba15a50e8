"""Workers that die take nothing with them: real processes, really killed."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps.local import Failure, sweep
from helpers.deadly import DeadlyRuns
from helpers.sameness import results, until

pytestmark = pytest.mark.fault


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.sweeps.local.loaded", lambda: (DeadlyRuns(),))
    return partial(_outcomes, tmp_path)


def _outcomes(folder, *runs, workers):
    events = []
    configs = [Config(method=method, seed=seed) for method, seed in runs]
    found = sweep(configs, Request(out=folder), workers=workers, sink=events.append)
    assert [(each.config.method, each.config.seed) for each in found] == list(runs)
    return [str(each.error) if isinstance(each, Failure) else "done" for each in found], events


def test_a_killed_worker_is_replaced_and_its_run_repeated(outcomes):
    runs = [("gem", 2), ("er", 0), ("gem", 3), ("er", 1)]
    found, events = outcomes(*runs, workers=2)
    killed = "its process was killed (signal 9) 3 times; if memory is short, run fewer at the same"
    assert found == ["done", "done", f"{killed} time", "done"]
    warnings = [(e["run"], e["text"]) for e in events if e["event"] == "warning"]
    assert len(warnings) == 4
    assert {run for run, _ in warnings} == {0, 2}
    assert warnings[0][1] == "its process was killed (signal 9); a new process continues the run"


def test_whatever_ends_a_run_is_said_and_the_others_finish_in_the_same_worker(outcomes):
    found, events = outcomes(("fdr", 0), ("er", 0), ("gss", 0), ("er", 1), workers=1)
    assert found[0] == "SystemExit: not today"
    assert found[1] == found[3] == "done"
    assert "ended with exit code 7 3 times" in found[2]
    processes = {e["run"]: e["process"] for e in events if e["event"] == "begin"}
    assert processes[0] == processes[1], "a worker is reused"


def test_a_script_that_is_not_guarded_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from bntricks import Config, Shared, sweep\nsweep([Config()], Shared(), workers=1)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith('a script must call this under `if __name__ == "__main__":`')


SWEEP = """
import sys
from pathlib import Path
from bntricks import Config, Shared, sweep

if __name__ == "__main__":
    little = dict(stream="seq-digits", width=4, stages=2, blocks=1, images_per_class=40, epochs=15)
    configs = [Config(method=name, seed=1, **little) for name in ("er-bnt", "er", "sgd")]
    shared = Shared(out=Path(sys.argv[1]), checkpoint_seconds=0.1)
    failed = [each for each in sweep(configs, shared, workers=2) if hasattr(each, "reason")]
    assert not failed, failed
"""


def workers_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [c for c in children if "spawn_main" in Path(f"/proc/{c}/cmdline").read_text()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds its workers in /proc")
def test_a_run_whose_worker_is_killed_goes_on_to_the_same_bits(tmp_path):
    (tmp_path / "script.py").write_text(SWEEP)
    subprocess.run([sys.executable, "script.py", "whole"], cwd=tmp_path, check=True)
    process = subprocess.Popen([sys.executable, "script.py", "killed"], cwd=tmp_path)
    until(lambda: len(list(tmp_path.glob("killed/*/checkpoint.before"))) == 2, "no checkpoints")
    os.kill(int(workers_of(process)[0]), signal.SIGKILL)
    assert process.wait(300) == 0
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert len(results(tmp_path / "whole")) == 3
    assert any('"resumed"' in log.read_text() for log in tmp_path.glob("killed/*/log.jsonl"))
