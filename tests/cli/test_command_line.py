"""The command line, as a user types it: real files, and real processes where they matter."""

import fcntl
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from helpers.command_line import DIGITS, SMALL, bnt, cifar10, process, refused
from helpers.processes import Process
from helpers.sameness import until

pytestmark = pytest.mark.journey


def test_help_needs_no_torch_and_names_every_command(tmp_path):
    probe = "import sys; sys.argv = ['bnt', '--help']\nfrom bntricks.cli import main\n"
    probe += "try: main()\nexcept SystemExit as end: sys.exit(end.code or 'torch' in sys.modules)"
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ")}
    assert {
        *("demo", "run", "resume", "study", "report", "methods", "streams"),
        *("diagnose", "recalibrate", "learn", "predict", "export"),
    } <= listed


def test_a_sweep_leaves_torch_to_its_workers(tmp_path):
    probe = """
import sys
from bntricks.runs.config import Config
from bntricks.sweeps.local import sweep

little = dict(width=2, stages=2, blocks=1, images_per_class=20, epochs=1)
[record] = sweep([Config(stream="seq-digits", **little)], workers=1)
sys.exit("torch" in sys.modules or record.acc < 0)
"""
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=tmp_path)


def test_methods_and_streams_are_listed_for_people_and_programs(tmp_path):
    rows = json.loads(bnt("methods", "--json", cwd=tmp_path).stdout)
    row = next(row for row in rows if row["name"] == "er-bnt")
    assert (row["ema"], row["parameters"], row["forwards"]) == ("B_b", "B_t, B_M", 2)
    assert round(row["new_share_of_phi"], 2) == 0.23
    assert all(row["source"] for row in rows if row["name"] not in ("sgd", "joint"))
    listed = bnt("methods", cwd=tmp_path).stdout
    assert all(row["name"] in listed and row["summary"] in listed for row in rows)
    assert "Rebuffi et al. 2017" in listed
    assert "B_t ∪ B_M" in bnt("methods", "--recipes", cwd=tmp_path).stdout
    names = {row["name"] for row in json.loads(bnt("streams", "--json", cwd=tmp_path).stdout)}
    assert {"seq-digits", "seq-cifar10", "seq-cifar100-20", "seq-tiny-imagenet", "folder"} <= names
    assert "seq-tiny-imagenet-20" in bnt("streams", cwd=tmp_path).stdout


def test_norms_are_listed_and_drawn(tmp_path):
    rows = {row["name"]: row for row in json.loads(bnt("norms", "--json", cwd=tmp_path).stdout)}
    assert {"bn", "gn", "ln", "in", "cn", "brn", "tbbn", "adab2n", "gn+ws", "frozen"} <= set(rows)
    assert (rows["gn"]["phi"], rows["cn"]["phi"], rows["brn"]["phi"]) == (
        *("none", "moved", "moved and read"),
    )
    assert rows["adab2n"]["knobs"] == {"kappa": 0.4, "lambda_norm": 0.1}
    assert "gn+ws" in bnt("norms", cwd=tmp_path).stdout
    assert bnt("norms", "--picture", "norms.svg", cwd=tmp_path).returncode == 0
    assert (tmp_path / "norms.svg").read_text(encoding="utf-8").startswith("<svg")
    refused(bnt("norms", "--picture", "norms.svg/x.svg", cwd=tmp_path), "cannot write")
    refused(
        bnt("run", "--stream", "seq-digits", "--norm", "gn", cwd=tmp_path),
        *("--norm gn: it has no running statistics", "er-cur+buf"),
    )


def test_a_run_is_recorded_and_never_trained_twice(tmp_path):
    first = process("run", "--method", "er-bnt", *DIGITS, "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    record = json.loads(first.stdout)
    assert first.stdout.count("\n") == 1
    r = record["accuracy"]
    assert len(r) == 5
    assert all((value is None) == (j > i) for i, row in enumerate(r) for j, value in enumerate(row))
    assert record["acc"] == pytest.approx(sum(r[4]) / 5)
    assert record["bwt"] == pytest.approx(sum(r[4][j] - r[j][j] for j in range(4)) / 4)
    assert record["data"]["images"]["train"] == 240
    assert record["tracking_forwards"] > 0
    for key in ("method", "stream", "seed", "forwards_per_step", "peak_memory_mb", "versions"):
        assert key in record
    folder = tmp_path / record["path"]
    on_disk = json.loads((folder / "record.json").read_text())
    assert on_disk["accuracy"] == r

    written = (folder / "record.json").stat().st_mtime_ns
    again = bnt("run", "--method", "er-bnt", *DIGITS, cwd=tmp_path)
    assert "already there" in again.stdout
    assert (
        json.loads(bnt("run", "--method", "er-bnt", *DIGITS, "--json", cwd=tmp_path).stdout)[
            "accuracy"
        ]
        == r
    )
    assert (folder / "record.json").stat().st_mtime_ns == written
    forced = bnt("run", "--method", "er-bnt", *DIGITS, "--force", "--json", cwd=tmp_path)
    assert json.loads(forced.stdout)["accuracy"] == r
    assert (folder / "record.json").stat().st_mtime_ns > written


def test_another_protocol_is_chosen_by_flags(tmp_path):
    protocol = ["--class-order", "1993", "--first", "4", "--increment", "3", "--blurry", "0.1"]
    training = ["--optimiser", "sgdm", "--schedule", "cosine", "--clip", "1", "--net", "mlp"]
    done = bnt("run", *DIGITS, *protocol, *training, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["data"]["classes"] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert len(record["accuracy"]) == 3
    assert record["config"]["class_order"] == "1993"


def test_the_same_run_is_the_same_whatever_does_not_matter(tmp_path):
    paths = {
        json.loads(bnt("run", *DIGITS, *more, "--json", cwd=tmp_path).stdout)["path"]
        for more in (
            ["--method", "sgd"],
            ["--method", "sgd", "--memory", "77"],
            ["--method", "sgd", "--track", "every-step"],
        )
    }
    assert len(paths) == 1


def test_a_default_spelt_out_is_the_same_run(tmp_path):
    runs = [
        json.loads(bnt("run", "--method", "der++", *DIGITS, *more, "--json", cwd=tmp_path).stdout)
        for more in ([], ["--alpha", "0.2"], ["--as-published"], ["--alpha", "0.9"])
    ]
    assert runs[0]["path"] == runs[1]["path"] == runs[2]["path"] != runs[3]["path"]
    assert runs[0]["config"]["hyper"] == {"alpha": 0.2, "beta": 0.5}


NAMES = [
    *("joint", "sgd", "lwf", "gem", "a-gem", "fdr", "gss", "er", "er-bnt", "der++", "der++-bnt"),
    *("icarl", "icarl-bnt", "der", "der-bnt", "fdr-bnt", "gss-bnt", "er-balance-batch"),
    *("er-cur+buf", "er-cur+prev", "er-balance-joint-train", "er-bnt-no-simulator"),
    *("er-bnt-imbalance-tracker", "icarl-concat", "icarl-bnt-no-simulator"),
    *("icarl-bnt-imbalance-tracker", "er-recalibrate", "er-even", "er-even-bnt"),
    *("er-prev-joint", "er-track-memory", "er-track-aligned", "der++-joint"),
    *("er-ace", "er-ace-bnt", "er-ace-joint", "er-las"),
    *("cls-er", "cls-er-working-phi", "cls-er-working", "cls-er-split"),
]


def test_every_row_of_the_papers_tables_is_there(tmp_path):
    rows = json.loads(bnt("methods", "--json", cwd=tmp_path).stdout)
    assert sorted(row["name"] for row in rows) == sorted(NAMES)


def test_every_method_runs_from_the_command_line(tmp_path):
    few = ["--stream", "seq-digits", "--images-per-class", "8", "--memory", "20", *SMALL]
    for name in NAMES:
        done = bnt("run", "--method", name, *few, "--json", cwd=tmp_path)
        assert done.returncode == 0, (name, done.stderr)
        record = json.loads(done.stdout)
        assert record["method"] == name
        assert None not in record["accuracy"][-1]


def test_joint_is_measured_once_and_has_no_backward_transfer(tmp_path):
    record = json.loads(bnt("run", "--method", "joint", *DIGITS, "--json", cwd=tmp_path).stdout)
    assert record["bwt"] is None
    assert all(value is None for row in record["accuracy"][:-1] for value in row)
    assert None not in record["accuracy"][-1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--method", "er-bmt"], ["er-bmt", "did you mean er-bnt, "]),
        (["--stream", "seq-cifar11"], ["seq-cifar11", "seq-cifar10"]),
        (["--memory", "-5"], ["--memory -5", "greater than or equal to 1"]),
        (["--epochs", "0"], ["--epochs 0", "greater than or equal to 1"]),
        (["--lr", "nan"], ["--lr nan", "finite"]),
        (["--lr", "fast"], ["--lr fast", "number"]),
        (["--batch", "1"], ["--batch 1"]),
        (["--epoch", "3"], ["--epoch", "did you mean --epochs?"]),
        (["--alpha", "0.5"], ["--alpha: er-bnt has no such hyper-parameter"]),
        (
            ["--method", "der++", "--gamma", "1"],
            ["--gamma: der++ has no", "alpha (default 0.2)"],
        ),
        (["--method", "der++", "--alpha", "-1"], ["--alpha -1", "greater than or equal to 0"]),
        (
            ["--method", "icarl", "--memory", "9"],
            ["--memory 9", "of each class", "make it 10"],
        ),
        (
            ["--method", "gem", "--memory", "4"],
            ["--memory 4", "of each task", "make it 5"],
        ),
        (["--device", "tpu"], ["--device tpu", "give cpu, cuda"]),
        (["--device", "cuda:7"], ["--device cuda:7", "cpu works"]),
        (["--stream", "seq-cifar10", "--data", "nowhere"], ["nowhere", "does not exist"]),
        (["--stream", "folder"], ["--data"]),
        (["--image-size", "4"], ["--image-size 4"]),
        (["stray"], ["stray"]),
        (["--forse"], ["unknown flag --forse", "did you mean --force?"]),
        (["--forse", "--method", "der++", "--beta", "1"], ["did you mean --force?"]),
    ],
)
def test_a_mistake_is_one_clear_line_and_leaves_nothing_behind(tmp_path, flags, words):
    base = [] if "--stream" in flags else ["--stream", "seq-digits"]
    refused(bnt("run", *base, *flags, cwd=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_gets_a_suggestion(tmp_path):
    refused(bnt("demmo", cwd=tmp_path), "demmo", "demo")


def test_a_truncated_file_is_named_before_any_training(tmp_path):
    folder = cifar10(tmp_path / "data")
    whole = (folder / "data_batch_3.bin").read_bytes()
    (folder / "data_batch_3.bin").write_bytes(whole[:-100])
    done = bnt("run", "--stream", "seq-cifar10", "--data", "data", *SMALL, cwd=tmp_path)
    refused(done, "data_batch_3.bin", "cut off")
    assert not (tmp_path / "runs").exists()


def test_cut_down_data_is_labelled(tmp_path):
    cifar10(tmp_path / "data")
    flags = ["run", "--method", "er", "--stream", "seq-cifar10", "--data", "data", *SMALL]
    done = bnt(*flags, "--image-size", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cut-down data: 200 of 50000 training" in done.stdout
    record = json.loads(bnt(*flags, "--image-size", "8", "--json", cwd=tmp_path).stdout)
    assert record["data"]["cut_down"] is True
    assert record["data"]["official_images"] == {"train": 50000, "test": 10000}


def test_the_data_counts_and_not_where_it_lies(tmp_path):
    cifar10(tmp_path / "here")
    cifar10(tmp_path / "there")
    cifar10(tmp_path / "other", seed=1)
    flags = ["run", "--stream", "seq-cifar10", *SMALL, "--image-size", "8", "--json"]
    paths = [
        json.loads(bnt(*flags, "--data", where, cwd=tmp_path).stdout)["path"]
        for where in ("here", "there", "other")
    ]
    assert paths[0] == paths[1] != paths[2]


def test_a_folder_of_photographs_is_a_stream(tmp_path):
    random = np.random.default_rng(0)
    for name in ("[bold] cat", "dog", "ёж", "owl"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = random.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.jpg")
    flags = ["run", "--stream", "folder", "--data", "photos", "--image-size", "8", *SMALL]
    done = bnt(*flags, "--tasks", "dog,owl,ёж", "--tasks", '["[bold] cat"]', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(next((tmp_path / "runs").glob("*/record.json")).read_text())
    assert record["data"]["class_names"] == ["dog", "owl", "ёж", "[bold] cat"]
    assert record["data"]["classes"] == [[0, 1, 2], [3]]


def test_a_folder_that_cannot_be_written_is_a_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = bnt("run", "--method", "sgd", *DIGITS, "--out", "file/runs", cwd=tmp_path)
    refused(done, "file/runs", "--out")


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(tmp_path):
    done = bnt("run", "--method", "sgd", *DIGITS, "--lr", "1e30", cwd=tmp_path)
    refused(done, "not finite at step", "lower the learning rate (--lr)", code=1)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_corrupt_record_is_not_taken_for_a_result(tmp_path):
    path = json.loads(bnt("run", "--method", "sgd", *DIGITS, "--json", cwd=tmp_path).stdout)["path"]
    (tmp_path / path / "record.json").write_text('{"accuracy": [')
    refused(
        bnt("report", path, cwd=tmp_path), "record.json is not a valid run record", "not whole JSON"
    )
    again = bnt("run", "--method", "sgd", *DIGITS, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"{path}/record.json is not a valid run record" in again.stderr
    assert "already there" not in again.stdout
    assert "already there" in bnt("run", "--method", "sgd", *DIGITS, cwd=tmp_path).stdout


@pytest.fixture
def long_run(tmp_path):
    """A run that is in the middle of its work."""
    flags = ["run", "--method", "sgd", *DIGITS[:-1], "100000"]  # epochs
    with Process(*flags, cwd=tmp_path) as process:
        until(lambda: list(tmp_path.glob("runs/*/log.jsonl")), "no run")
        yield process, flags


def test_two_processes_never_work_on_one_run_and_a_killed_one_blocks_nobody(long_run, tmp_path):
    process, flags = long_run
    refused(bnt(*flags, cwd=tmp_path), "another process", code=3)
    process.kill()
    process.wait()
    with next(tmp_path.glob("runs/*/lock")).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_cleanly(long_run, sent, code):
    process, _ = long_run
    process.send_signal(sent)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in errors


def test_corrections_that_rescore_are_shown_from_one_training(tmp_path):
    done = bnt("run", "--method", "er", *DIGITS, "--readings", cwd=tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith("read by ")]
    assert [line.split(":")[0].removeprefix("read by ") for line in lines] == [
        *("wa-eval", "bic", "il2m", "prior")
    ]
    assert all("ACC" in line and "BWT" in line for line in lines)
    bic = json.loads(
        bnt("run", "--method", "er", *DIGITS, "--correct", "bic", "--json", cwd=tmp_path).stdout
    )
    assert bic["already_there"]
    assert f"ACC {bic['acc']:.2f} " in lines[1]
    assert bic["config"]["correct"] == "bic"
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_run_is_probed_on_request_and_the_report_draws_what_was_found(tmp_path):
    flags = ["run", "--method", "er", *DIGITS, "--probe"]
    record = json.loads(bnt(*flags, "phi", "--json", cwd=tmp_path).stdout)
    assert record["phi"]["acc"] == pytest.approx(record["acc"])
    assert [at["share"] for at in record["phi"]["by_share"]] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    bnt("report", "runs", cwd=tmp_path)
    assert (tmp_path / "report" / "figures" / "share-of-phi-seq-digits.csv").is_file()
    wrong = bnt(*flags, "theta", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "phi" in wrong.stderr
    assert "Traceback" not in wrong.stderr
