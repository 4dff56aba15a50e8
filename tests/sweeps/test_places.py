"""Several devices in one machine: which worker computes where, which names of runs do not say."""

import os
import sys
from collections import Counter

import pytest

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.request import Request
from bntricks.sweeps import places as module
from bntricks.sweeps.local import Failure, sweep
from bntricks.sweeps.places import VISIBLE, available_cores, check_places, places, settle
from bntricks.sweeps.queue import Turns
from bntricks.system.pretend import pretend
from helpers.command_line import bnt, refused
from helpers.deadly import PlacedRuns, PretendedGpus

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
TINY |= {"images_per_class": 10}


def test_devices_are_listed_counted_or_found():
    assert places("cuda:0,cuda:1", "cpu") == ("cuda", ("cuda:0", "cuda:1"))
    assert places("3", "cuda") == ("cuda", ("cuda:0", "cuda:1", "cuda:2"))
    assert places("2", "cpu", 2) == ("cpu", ("cpu:0", "cpu:1", "cpu:0", "cpu:1"))
    with pretend("cuda", count=2):
        assert places("auto", "cpu") == ("cuda", ("cuda:0", "cuda:1"))
        check_places(("cuda:0", "cuda:1"))
        with pytest.raises(UserError, match=r"cuda:2: this machine has 2 GPUs, counted from 0"):
            check_places(("cuda:1", "cuda:2"))
    assert len(places("auto", "cpu")[1]) == available_cores()


@pytest.mark.parametrize("wrong", ["cuda", "cuda:0,cpu:0", "gpu:1", "0", "", "cuda:0,", "-1"])
def test_other_devices_are_refused(wrong):
    with pytest.raises(UserError, match="such as cuda:0,cuda:1") as refused:
        places(wrong, "cpu")
    assert refused.value.option == "devices"
    with pytest.raises(UserError, match="named twice"):
        places("cuda:0,cuda:0", "cpu")


def test_a_worker_sees_its_own_gpu_of_those_that_were_given(monkeypatch):
    monkeypatch.setenv(VISIBLE, "5,7")
    settle("cuda:1")
    assert os.environ[VISIBLE] == "7"
    monkeypatch.delenv(VISIBLE)
    settle("cuda:1")
    assert os.environ[VISIBLE] == "1"
    settle("")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 6}, raising=False)
    pinned = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, own: pinned.append(own), raising=False)
    settle("cpu:1")
    assert pinned == [{6}]


def workers(tmp_path, monkeypatch, configs, names, code):
    monkeypatch.setattr("bntricks.sweeps.local.loaded", lambda: (code,))
    events = []
    found = sweep(configs, Request(out=tmp_path), turns=Turns(names), sink=events.append)
    assert not [each for each in found if isinstance(each, Failure)], found
    return found, [event for event in events if event["event"] == "begin"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
def test_each_worker_keeps_to_its_core(tmp_path, monkeypatch):
    configs = [Config(method="er", seed=seed) for seed in range(4)]
    names = ("cpu:0", f"cpu:{available_cores() - 1}")
    _, begun = workers(tmp_path, monkeypatch, configs, names, PlacedRuns())
    cores = sorted(os.sched_getaffinity(0))
    by_process = {event["where"][0]: event["where"][1] for event in begun}
    assert set(map(tuple, by_process.values())) <= {(cores[0],), (cores[-1],)}
    assert len(begun) == 4


@pytest.mark.slow
def test_each_run_has_a_gpu_of_its_own_under_the_same_name(tmp_path, monkeypatch):
    configs = [Config(method="er", device="cuda", memory=10, seed=seed, **TINY) for seed in (0, 1)]
    names = places("2", "cuda")[1]
    found, _ = workers(tmp_path, monkeypatch, configs, names, PretendedGpus())
    assert [record.config.device for record in found] == ["cuda", "cuda"]
    seen = Counter(path.read_text() for path in tmp_path.glob("gpu of *"))
    assert seen == Counter(["0", "1"])


def test_the_command_refuses_what_does_not_go_together(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_gpus", lambda: 1)
    study = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits"]
    done = bnt(*study, "--devices", "cuda:0,cuda:1", cwd=tmp_path)
    refused(done, "--devices cuda:1: this machine has 1 GPU")
    done = bnt(*study, "--devices", "auto", "--workers", "2", cwd=tmp_path)
    refused(done, "--workers: leave one of them out (--devices)")
    refused(bnt(*study, "--per-device", "2", cwd=tmp_path), "--per-device: which devices?")
    refused(bnt(*study, "--shard", "3/2", cwd=tmp_path), "--shard 3/2: write it as 1/8")
    refused(bnt(*study, "--time-limit", "3", cwd=tmp_path), "--time-limit 3: write it as 3h")
    assert not list(tmp_path.iterdir())
