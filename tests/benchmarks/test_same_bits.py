"""The script that compares bits before and after a change sees what moved, and nothing else."""

import torch
from safetensors.torch import save_file

import same_bits


def test_a_value_that_moved_is_named_and_so_is_one_that_is_gone():
    before = {"methods/er": {"acc": 1.0, "keys": ["acc"]}, "learn/er": {"new": "a"}}
    now = {"methods/er": {"acc": 1.5, "keys": ["acc"]}}
    assert list(same_bits.differences(before, now)) == [
        "/learn/er: {'new': 'a'} is now None",
        "/methods/er/acc: 1.0 is now 1.5",
    ]
    assert not list(same_bits.differences(before, before))


def test_when_and_where_a_run_was_made_is_left_out():
    today = {"acc": 1.0, "finished": "2026-11-18T12:00:00Z", "path": "a", "seconds": {"train": [1]}}
    tomorrow = {"acc": 1.0, "finished": "2026-11-19T12:00:00Z", "path": "b", "seconds": {}}
    assert same_bits.masked(today) == same_bits.masked(tomorrow) == {"acc": 1.0}


def test_a_model_file_has_other_digests_when_a_bit_of_a_tensor_or_a_word_about_it_moves(tmp_path):
    def written(value, said):
        save_file({"x": torch.tensor(value)}, tmp_path / "m", {"about": f'{{"said": "{said}"}}'})
        return same_bits.model(tmp_path / "m")

    first = written(1.0, "learned on 2026-11-18")
    assert first == written(1.0, "learned on 2026-11-19")
    assert first["tensors"] != written(1.0000001, "learned on 2026-11-18")["tensors"]
    assert first["about"] != written(1.0, "learned twice")["about"]
