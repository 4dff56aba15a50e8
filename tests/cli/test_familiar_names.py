"""Names of other libraries, and other spellings of ours, are answered with ours."""

import json

import pytest

from bntricks.cli import app
from bntricks.cli.app import ELSEWHERE
from bntricks.errors import unknown
from bntricks.methods import entries
from bntricks.streams import STREAMS
from helpers.command_line import DIGITS, bnt, refused

pytestmark = pytest.mark.journey


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--model", "er"], "unknown flag --model: here it is --method or --net"),
        (["--dataset", "seq-cifar10"], "unknown flag --dataset: here it is --stream"),
        (["--dataset=seq-cifar10"], "unknown flag --dataset: here it is --stream"),
        (["--buffer_size", "500"], "unknown flag --buffer-size: here it is --memory"),
        (["--batch-size", "32"], "unknown flag --batch-size: here it is --batch"),
        (["--batch_size", "32"], "here it is --batch"),
        (["--minibatch_size", "32"], "here it is --memory-batch"),
        (["--n_epochs", "1"], "here it is --epochs"),
        (["--optim_wd", "0.1"], "here it is --weight-decay"),
        (["--init-cls", "50"], "here it is --first"),
        (["--loadcheck", "x.pt"], "here it is --from"),
        (["--gpu"], "here it is --device"),
        (["--start", "x.pt"], "here it is --from"),
        (["--imports", "my.py"], "did you mean --import?"),
        (["--epoch", "3"], "did you mean --epochs?"),
    ],
)
def test_an_option_of_another_library_is_answered_with_ours(tmp_path, words, answer):
    done = bnt("run", *words, cwd=tmp_path)
    refused(done, answer)
    assert done.stderr.count("\n") == 1


def test_other_commands_answer_too_and_only_with_flags_that_they_have(tmp_path):
    refused(bnt("study", "pilot", "--dataset", "x", cwd=tmp_path), "here it is --stream")
    refused(bnt("sweep", "--model", "er", cwd=tmp_path), "here it is --method or --net")
    assert "--stream" not in bnt("demo", "--dataset", "x", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("names", "theirs", "ours"),
    [
        (entries, "derpp", "der++"),
        (entries, "ER-BNT", "er-bnt"),
        (entries, "er_bnt", "er-bnt"),
        (entries, "agem", "a-gem"),
        (entries, "finetune", "sgd"),
        (entries, "DERPP-BNT", "der++-bnt"),
        (lambda: STREAMS, "CIFAR10", "seq-cifar10"),
        (lambda: STREAMS, "split-cifar100", "seq-cifar100"),
        (lambda: STREAMS, "seq-tinyimg", "seq-tiny-imagenet"),
        (lambda: STREAMS, "fashion-mnist", "seq-fashion"),
    ],
)
def test_a_name_of_another_library_is_answered_with_ours(names, theirs, ours):
    answer = str(unknown("one", theirs, list(names())))
    first = answer.partition("did you mean ")[2].rstrip("?").replace(" or ", ", ").split(", ")[0]
    assert first == ours


def test_every_flag_that_is_suggested_exists_and_none_that_exists_is_taken_for_another():
    arguments = app["run"].assemble_argument_collection()
    flags = {name for each in arguments if each.parse for name in each.names}
    assert {f"--{name}" for name in ELSEWHERE} <= flags
    theirs = {f"--{word}" for words in ELSEWHERE.values() for word in words.split()}
    assert not theirs & flags


def test_several_seeds_are_several_runs_and_one_object_a_line(tmp_path, one_process):
    command = ["run", "--method", "er", *DIGITS, "--seed", "3", "--seeds", "2"]
    done = bnt(*command, "--json", cwd=tmp_path)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["seed"] for record in records] == [3, 4]
    assert [record["already_there"] for record in records] == [False, False]
    alone = json.loads(bnt(*command[:-4], "--seed", "4", "--json", cwd=tmp_path).stdout)
    assert (alone["already_there"], alone["acc"]) == (True, records[1]["acc"])
    lines = bnt(*command, "--metrics", "acc", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["seed", "3", "4", "mean", "sd"]
    mean = sum(record["acc"] for record in records) / 2
    assert float(lines[3].split()[1]) == pytest.approx(mean, abs=0.005)


def test_a_seed_that_fails_does_not_stop_the_others(tmp_path, one_process):
    command = ["run", "--method", "er", *DIGITS, "--seeds", "2"]
    done = bnt(*command, "--lr", "1e30", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("the loss was not finite") == 2
