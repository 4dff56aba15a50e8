"""What people type by mistake, and what a shell does to a stream: one line, and nothing is left."""

import json
import signal

import pytest

from bntricks.cli.training import _duration
from helpers.processes import CLOSED, UNREAD, completed

SMALL = ("--stream", "seq-digits", "--images-per-class", 4, "--width", 2, "--stages", 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lr", "1e308"), ["--lr 1e+308: it must be above 0, such as 0.03"]),
        (("--memory", 10**15), [f"--memory {10**15}", "less than or equal to 10000000"]),
        (("--threads", 10**6), ["--threads 1000000", "less than or equal to 1024"]),
        (("--method", "lwf", "--decay", "1e308"), ["--decay 1e+308", "less than or equal to"]),
        (
            ("--net", "x:y"),
            ["--net x:y: importing x raised ModuleNotFoundError: No module named 'x'"],
        ),
        (("--seed", 0, 1), ["bnt run does not take '1': an option has one value"]),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_anything_is_written(
    refused, tmp_path, options, words
):
    refused("run", *SMALL, "--out", tmp_path / "runs", *options, words=words)
    assert list(tmp_path.iterdir()) == []


def test_memory_that_runs_out_ends_a_run_without_leftovers(refused, tmp_path, monkeypatch):
    def fail(*arguments, **keywords):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory: you tried to")

    monkeypatch.setattr("bntricks.runs.train.learn_epochs", fail)
    words = ["out of memory: use a smaller network, batch"]
    refused("run", *SMALL, "--out", tmp_path / "runs", words=words, code=1)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("demo", "--seeds", "1.5"), ("learn", "a", "--into", "b", "--epochs", "2.5")]
)
def test_counts_are_not_rounded(refused, words):
    refused(*words, words=[f'Invalid value for {words[-2]}: "{words[-1]}" is not a whole number'])


def test_streams_without_an_official_size_say_so_by_a_dash(bnt):
    listed = bnt("streams").out
    assert "None" not in listed
    assert "50000 + 10000" in listed


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "less than a minute"),
        (61, "about a minute"),
        (150, "about 2 minutes"),
        (7200, "about 2.0 hours"),
    ],
)
def test_durations_read_as_people_say_them(seconds, words):
    assert _duration(seconds) == words


def test_an_image_that_is_not_there_is_not_to_be_moved_away(refused, model, tmp_path):
    err = refused("predict", model, tmp_path / "nosuch.jpg", words=["no such file; check the path"])
    assert "move it away" not in err


@pytest.mark.parametrize(
    ("option", "value"), [("data", ["x"]), ("track", "never"), ("track", []), ("probe", 7)]
)
def test_a_request_that_nobody_made_is_not_resumed(refused, tmp_path, option, value):
    request = {"config": {"stream": "seq-digits"}, "data": None, "track": "deferred", "probe": None}
    (tmp_path / "run.json").write_text(json.dumps({**request, option: value}))
    refused("resume", tmp_path, words=["holds no run (run.json is missing or damaged)"])


def test_a_name_too_long_for_the_disk_is_one_line(refused, model):
    refused("predict", "x" * 300, "a.jpg", words=["File name too long"])
    refused("export", model, "--safetensors", "x" * 300, words=["File name too long"])


def test_a_network_without_a_head_does_not_fit_a_model(bnt, model):
    done = bnt("predict", model, "a.jpg", "--net", "torch.nn:Flatten")
    assert done.code == 2
    assert "the network given does not fit it: " in done.err


@pytest.mark.journey
@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize(
    ("stdout", "code", "words"),
    [
        ("/dev/full", 1, "bnt: cannot write the output: No space left on device"),
        (CLOSED, 2, "bnt: standard output is closed: send it to a file"),
        (UNREAD, 141, ""),
    ],
)
def test_a_stream_that_is_full_or_closed_is_one_line(stdout, code, words, json, tmp_path):
    done = completed("streams", *json, cwd=tmp_path, stdout=stdout)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(words)
    assert len(done.stderr.splitlines()) == bool(words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.journey
def test_a_mistake_that_cannot_be_told_still_has_its_exit_code(tmp_path):
    done = completed("nosuch", cwd=tmp_path, stderr=CLOSED)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.fault
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_request_to_stop_that_a_library_takes_for_an_error_still_ends_the_command(
    bnt, monkeypatch, number, code
):
    def interrupted():
        try:
            signal.raise_signal(number)
        except SystemExit:
            raise TypeError("'str' object is not an instance of 'tuple'") from None

    monkeypatch.setattr("bntricks.methods.entries", interrupted)
    done = bnt("methods")
    assert done.code == code
    how = "bnt: interrupted" if code == 130 else "bnt: terminated"
    assert done.err.splitlines() == [how]
    monkeypatch.setattr("bntricks.runs.folder.run", lambda *_, **__: interrupted())
    assert bnt("run").err.splitlines() == [f"{how}: repeat the command to go on from here"]
