"""Sweeps on a real cluster of two Ray nodes, one of which is killed on the way."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bntricks.sweeps.ray import _Quiet
from helpers.command_line import bnt, refused
from helpers.own_code import own_method
from helpers.sameness import STUDY, results, tables, until

pytestmark = [pytest.mark.fault, pytest.mark.slow]

RAY = Path(sys.executable).with_name("ray")
TINY = ["--stream", "seq-digits", "--width", "4", "--stages", "2", "--epochs", "1"]
SWEEP = """
import sys
from pathlib import Path
from bntricks.sweeps.ray import Cluster, sweep_on_ray
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request
from bntricks.sweeps.local import sweep

little = dict(stream="seq-digits", width=4, stages=2, blocks=1, images_per_class=40, epochs=50)
configs = [Config(method=name, seed=1, **little) for name in ("er-bnt", "icarl-bnt")]
request = Request(out=Path(sys.argv[1]), checkpoint_seconds=0.1)
if len(sys.argv) > 2:
    results = sweep_on_ray(configs, request, Cluster(sys.argv[2]))
else:
    results = sweep(configs, request, workers=2)
assert all(isinstance(result, Record) for result in results), results
"""


def node(*flags):
    """A node in a session of its own, so that all of it can be killed at once."""
    return subprocess.Popen(
        [RAY, "start", *flags, "--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--block"],
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Cluster:
    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        port = self.address.split(":")[1]
        self.nodes = [node("--head", "--port", port, "--include-dashboard", "false")]
        until(lambda: self.size() == 1, "the head never came up")

    def grow(self):
        self.nodes.append(node("--address", self.address))
        until(lambda: self.size() == 2, "the second node never came up")

    def lose(self):
        kill(self.nodes.pop())

    def size(self):
        command = [RAY, "status", "--address", self.address]
        status = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        return status.partition("Pending:")[0].count(" 1 node_")


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    made = Cluster()
    yield made
    for process in made.nodes:
        kill(process)


def test_notes_of_lost_nodes_are_one_line_and_all_else_is_printed():
    stream = io.StringIO()
    quiet = _Quiet(stream)
    print("er  ACC 50.0", file=quiet)
    print("(raylet) Task _run failed.\n\tIt is retried.", file=quiet)
    print("(raylet) The node with node id: 9 has been marked dead\n\t(2) lagging", file=quiet)
    print("sgd  ACC 20.0", file=quiet)
    lost = "bnt: a node of the cluster is lost; its runs go on elsewhere"
    assert stream.getvalue().splitlines() == ["er  ACC 50.0", lost, "sgd  ACC 20.0"]


def test_runs_of_a_lost_node_go_on_elsewhere_to_the_same_bits(tmp_path, cluster):
    cluster.grow()
    subprocess.run([sys.executable, "-c", SWEEP, "here"], cwd=tmp_path, check=True)
    process = subprocess.Popen(
        [sys.executable, "-c", SWEEP, "there", cluster.address],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(list(tmp_path.glob("there/*/checkpoint.before"))) == 2, "no checkpoints")
    cluster.lose()
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert not out  # where a program expects its JSON
    assert results(tmp_path / "there") == results(tmp_path / "here")
    assert len(results(tmp_path / "here")) == 2
    assert any('"resumed"' in log.read_text() for log in tmp_path.glob("there/*/log.jsonl"))


def test_a_study_that_loses_a_node_ends_with_the_same_tables(tmp_path, cluster):
    cluster.grow()
    here = bnt(*STUDY, "--workers", "2", "--out", "here", cwd=tmp_path)
    assert here.returncode == 0, here.stderr
    process = subprocess.Popen(
        [sys.executable, "-m", "bntricks", *STUDY, "--out", "there", "--ray", cluster.address],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: list(tmp_path.glob("there/*/record.json")), "no run was finished")
    cluster.lose()
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert results(tmp_path / "there") == results(tmp_path / "here")
    assert len(results(tmp_path / "here")) == 8
    assert tables(out) == tables(here.stdout)


def digests(folder):
    return {
        p.parent.name: json.loads(p.read_text())["digest"] for p in folder.glob("*/record.json")
    }


def test_a_search_on_a_cluster_finds_what_it_finds_here(tmp_path, cluster):
    command = ["sweep", "--grid", "lr=0.01,0.1", "--method", "er-bnt", "--seeds", "2", *TINY]
    here = bnt(*command, "--out", "here", "--json", cwd=tmp_path)
    assert here.returncode == 0, here.stderr
    brought = ["--save", "--log", "csv", "--ray", cluster.address]
    there = bnt(*command, *brought, "--out", "there", "--json", cwd=tmp_path)
    assert there.returncode == 0, there.stderr
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
    found, expected = json.loads(there.stdout), json.loads(here.stdout)
    assert found["best"] == expected["best"]
    assert found["command"] == expected["command"]
    for name in ("model.safetensors", "log.csv"):
        assert len(list(tmp_path.glob(f"there/*/{name}"))) == 4


OWN = """
import sys
from pathlib import Path
from bntricks import Config, Shared, import_code
from bntricks.runs.record import Record
from bntricks.sweeps.ray import Cluster, sweep_on_ray

import_code("my.py")
Path("my.py").unlink()
little = dict(stream="seq-digits", width=4, stages=2, blocks=1, images_per_class=24, epochs=1)
shared = Shared(out=Path("runs"))
[record] = sweep_on_ray([Config(method="mine", **little)], shared, Cluster(sys.argv[1]))
assert isinstance(record, Record), record
assert record.config.imports.keys() == {"my.py"}
"""


def test_a_file_of_the_users_own_is_shipped_to_the_nodes(tmp_path, cluster):
    own_method(tmp_path)
    command = [sys.executable, "-c", OWN, cluster.address]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def a_study(folder, cluster):
    """A study on the cluster that has begun to train."""
    command = [*STUDY, "--out", "there", "--ray", cluster.address, "--checkpoint-seconds", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bntricks", *command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: list(folder.glob("there/*/run.json")), "no run was begun")
    return process


def said(errors):
    """Our own lines, without what Ray has to say of lost nodes, at times of its own choosing."""
    assert "Traceback" not in errors
    return [line for line in errors.splitlines() if line.startswith("bnt: ")]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_request_to_stop_is_obeyed_with_the_usual_exit_code(
    tmp_path, cluster, number, code, word
):
    process = a_study(tmp_path, cluster)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    _, last = said(errors)  # the first says what is run
    assert last == f"bnt: {word}: repeat the command to go on from here"


def test_a_lost_head_is_one_line_that_says_what_to_do(tmp_path):
    pytest.importorskip("ray")
    cluster = Cluster()
    process = a_study(tmp_path, cluster)
    cluster.lose()
    _, errors = process.communicate(timeout=50)  # Ray's own patience is a minute
    assert process.returncode == 1, errors
    line = r"bnt: the Ray cluster at [\d.]+:\d+ is lost: start it again, and repeat the command"
    assert re.match(line, said(errors)[-1])


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "nowhere.invalid:1"])
def test_no_cluster_is_a_clear_line(tmp_path, monkeypatch, address):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    left_behind = tmp_path / "ray" / "ray_current_cluster"
    left_behind.parent.mkdir()
    left_behind.write_text("127.0.0.1:1")
    done = bnt(*STUDY, "--ray", address, cwd=tmp_path)
    refused(done, f"--ray {address}", "ray start")
