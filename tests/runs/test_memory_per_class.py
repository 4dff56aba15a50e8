"""A memory that holds a number of images of each class, however many have come."""

from collections import Counter

import numpy as np
import pytest
import torch

from bntricks import Config, Learner, UserError, from_arrays, make, run
from bntricks.batch import Batch
from bntricks.memory import Memory
from bntricks.networks.mlp import mlp
from bntricks.runs.resolve import resolve

TINY = {"net": "mlp", "width": 4, "epochs": 3, "batch": 8}


def stream():
    y = np.arange(120) % 6
    x = np.random.default_rng(0).normal(size=(120, 4)) + y[:, None]
    return from_arrays(x, y, x, y, name="vectors")


@pytest.mark.parametrize("method", ["er", "der++-bnt", "er-even", "icarl"])
def test_after_every_task_each_class_has_as_many_images(method):
    net, data = mlp((4,), 6, width=4), stream()
    learner = Learner(net, make(method), memory_per_class=3, batch=8)
    assert learner.memory.capacity == 18
    for task in data:
        x, y = task.train.x, task.train.y
        learner.begin(task.classes, x, y)
        for rows in torch.arange(len(y)).split(8):
            learner.observe(x[rows], y[rows], ids=rows)
        learner.end(x, y)
        counts = Counter(learner.memory.y[: learner.memory.filled].tolist())
        assert counts == dict.fromkeys(range(task.classes[-1] + 1), 3)


@pytest.mark.law
def test_every_sample_of_a_class_ever_offered_is_kept_with_equal_probability():
    kept = torch.zeros(12)
    for seed in range(400):
        memory = Memory(4, insertion=torch.Generator().manual_seed(seed))
        y = torch.tensor([0] * 9 + [1] * 3)
        for rows in torch.arange(12).split(4):
            memory.add_by_class(Batch(rows[:, None].float(), y[rows], ids=rows), 2)
        kept += torch.bincount(memory.ids[: memory.filled], minlength=12)
        assert memory.y[: memory.filled].bincount().tolist() == [2, 2]
    assert kept[:9].numpy() / 400 == pytest.approx([2 / 9] * 9, abs=0.07)
    assert kept[9:].numpy() / 400 == pytest.approx([2 / 3] * 3, abs=0.07)


def test_a_run_has_room_for_all_classes_and_goes_on_to_the_same_bits(tmp_path):
    config = Config(method="er-bnt", memory_per_class=2, **TINY)
    record = run(config, stream=stream(), out=tmp_path / "whole")
    assert (record.config.memory, record.distinct) == (12, 12)

    class Enough(Exception):
        pass

    def stop(event):
        if event["event"] == "epoch" and event["step"] >= 20:
            raise Enough

    with pytest.raises(Enough):
        run(config, stream=stream(), out=tmp_path, sink=stop, checkpoint_seconds=0)
    again = run(record.config, stream=stream(), out=tmp_path)
    assert again.digest == record.digest
    assert again.path.name == record.path.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gem"}, "the memory of gem does not count classes"),
        ({"method": "gss"}, "the memory of gss does not count classes"),
        ({"method": "er", "memory": 50}, "give this or memory"),
    ],
)
def test_what_does_not_count_classes_is_refused(options, message):
    with pytest.raises(UserError, match=message) as refusal:
        resolve(Config(memory_per_class=2, **TINY, **options), None, stream=stream())
    assert refusal.value.option == "memory_per_class"


def test_without_a_memory_it_is_no_part_of_the_run():
    _, config = resolve(Config(method="sgd", memory_per_class=2, **TINY), None, stream=stream())
    assert (config.memory, config.memory_per_class) == (None, None)
