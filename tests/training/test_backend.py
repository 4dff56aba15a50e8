"""Flags of PyTorch that a run sets, and puts back."""

import pytest
import torch

from bntricks.errors import UserError
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.runs.resolve import resolve
from bntricks.sweeps.local import available_cores, default_workers
from bntricks.system.pretend import pretend
from bntricks.training.backend import arithmetic

TINY = {"method": "sgd", "stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
TINY |= {"images_per_class": 8}


def flags():
    tf32 = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    return tf32, torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("precision", "deterministic", "within"),
    [
        ("float32", False, ((False, False), False)),
        ("bf16", False, ((False, False), False)),
        ("tf32", False, ((True, True), False)),
        ("float32", True, ((False, False), True)),
    ],
)
def test_float32_means_float32_and_the_flags_come_back(precision, deterministic, within):
    before = flags()
    with arithmetic(precision, deterministic=deterministic):
        assert flags() == within
    assert flags() == before


def test_a_run_trains_under_the_flags_it_names(tmp_path):
    seen = []
    config = Config(**TINY, deterministic=True)
    record = run(config, out=tmp_path, sink=lambda event: seen.append(flags()))
    assert ((False, False), True) in seen
    assert record.config.deterministic
    assert flags()[1] is False


def test_tf32_is_refused_where_there_is_none():
    with pytest.raises(UserError, match="tf32 is arithmetic of CUDA devices"):
        resolve(Config(**TINY, precision="tf32"), None)
    with pretend("cuda"):
        resolve(Config(**TINY, precision="tf32", device="cuda"), None)


def test_a_run_that_was_named_before_there_was_a_choice_is_still_that_run():
    plain, chosen = Config(**TINY), Config(**TINY, deterministic=True)
    assert plain.identity("data") == Config(**TINY, deterministic=False).identity("data")
    assert plain.identity("data") != chosen.identity("data")


def test_a_study_starts_one_process_for_each_gpu_unless_asked():
    plain = Config(**TINY)
    runs = [plain.model_copy(update={"device": "cuda", "seed": seed}) for seed in range(5)]
    assert default_workers(runs) == 1
    assert default_workers([*runs, plain.model_copy(update={"device": "cuda:1"})]) == 2
    assert default_workers([plain] * 5) == available_cores()
