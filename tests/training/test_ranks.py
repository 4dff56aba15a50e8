"""The processes of a split run: one voice, one exit code, and none that outlives its launcher."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bntricks.errors import RunError
from bntricks.system.ranks import run_ranks
from helpers.sameness import until

pytestmark = pytest.mark.fault

SAYS = "import os, sys, time, signal; rank = int(os.environ['RANK']); "
FLAGS = ["--stream", "seq-digits", "--images-per-class", "24", "--width", "2", "--stages", "2"]
FLAGS += ["--blocks", "1", "--memory", "20"]


def ranks(script, count=2):
    return run_ranks(count, [sys.executable, "-c", SAYS + script])


def test_ranks_know_each_other_and_the_first_one_speaks(capfd):
    script = "print(rank, *(os.environ[n] for n in ('WORLD_SIZE', 'LOCAL_RANK')))"
    assert ranks(script, 3) == 0
    assert capfd.readouterr().out == "0 3 0\n"


def test_a_mistake_that_all_find_is_said_once_with_its_exit_code(capfd):
    assert ranks("print('bnt: no such method', file=sys.stderr); sys.exit(2)") == 2
    assert capfd.readouterr().err == "bnt: no such method\n"


def test_a_killed_rank_ends_the_others_and_is_named():
    script = "os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(600)"
    with pytest.raises(RunError, match=r"rank 1 of 2 was killed \(signal 9\): repeat the command"):
        ranks(script)


def test_what_only_another_rank_says_is_passed_on(monkeypatch):
    monkeypatch.setattr("bntricks.system.ranks.PATIENCE", 0.1)
    script = "time.sleep(600) if not rank else sys.exit('bnt: out of memory')"
    with pytest.raises(RunError, match="rank 1 of 2 failed: out of memory"):
        ranks(script)


LAUNCHER = """
import sys
from bntricks.system.ranks import run_ranks
run_ranks(2, [sys.executable, "-c", '''
import os, time
from bntricks.system.ranks import follow_launcher
follow_launcher()
open("rank " + os.environ["RANK"], "w").write(str(os.getpid()))
time.sleep(600)
'''])
"""


def test_no_rank_outlives_its_launcher(tmp_path):
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], cwd=tmp_path)
    written = [tmp_path / "rank 0", tmp_path / "rank 1"]
    until(lambda: all(p.exists() and p.read_text() for p in written), "no ranks")
    launcher.kill()
    launcher.wait()

    def alive(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    until(lambda: not any(alive(int(path.read_text())) for path in written), "orphans")


@pytest.mark.slow
def test_a_split_run_goes_on_after_a_rank_was_killed(tmp_path):
    run = [sys.executable, "-m", "bntricks", "run", "--ranks", "2", "--method", "er", *FLAGS]
    run += ["--epochs", "60", "--checkpoint-seconds", "0", "--json"]
    pipe = subprocess.PIPE
    split = subprocess.Popen(run, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    until(lambda: list(tmp_path.glob("runs/*/checkpoint.before")), "no checkpoints")
    children = Path(f"/proc/{split.pid}/task/{split.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    out, errors = split.communicate(timeout=100)
    assert split.returncode == 1
    assert out == ""
    assert "rank 1 of 2 was killed (signal 9)" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    again = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["config"]["ranks"] == 2
    assert '"resumed"' in next(tmp_path.glob("runs/*/log.jsonl")).read_text()
    gem = [word.replace("er", "gem") if word == "er" else word for word in run]
    refused = subprocess.run(gem, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "--method gem: this method cannot be split" in refused.stderr
