"""The paper's Figure 1 b/c at toy size: 100 batches of the last task through an ER-BNT network move
φ and nothing else. The doctor must find the network sound before, and say what happened after."""

import pytest
import torch

from bntricks import Learner, ResNet, diagnose, make, mixed, open_stream, recalibrate, update_ema


@pytest.fixture(scope="module")
def trained():
    stream = open_stream("seq-digits")
    mean, std = stream.mean[0], stream.std[0]

    def view(x, generator=None):
        return (x.float() / 255 - mean) / std

    torch.manual_seed(0)
    net = ResNet(10, channels=1, width=8, blocks=1, stages=4)
    learner = Learner(net, make("er-bnt"), memory=100, view=view)
    order = torch.Generator().manual_seed(0)
    for task in stream:
        learner.begin(task.classes)
        for _ in range(10):
            for rows in torch.randperm(len(task.train), generator=order).split(32):
                if len(rows) > 1:
                    learner.observe(task.train.x[rows], task.train.y[rows])
        learner.end()

    def groups(part):
        batches_by_group = {}
        for task in stream:
            images = getattr(task, part)
            rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
            name = f"digits {task.classes[0]} and {task.classes[1]}"
            batches_by_group[name] = [(view(images.x[r]), images.y[r]) for r in rows.split(64)]
        return batches_by_group

    return net, groups("train"), groups("test"), view(stream[-1].train.x)


@pytest.mark.slow
def test_statistics_of_the_last_task_cost_the_old_classes_and_recalibration_gives_back(trained):
    net, train, test, last = trained
    newest = list(train)[-1]
    before = diagnose(net, train, held_out=test)
    assert before.balanced.all_difference.sign == 0
    assert all(layer.distance < 0.15 for layer in before.layers)
    assert "φ does not lean" in str(before)

    net.train()
    generator = torch.Generator().manual_seed(2)
    for _ in range(100):
        update_ema(net, last[torch.randint(len(last), (32,), generator=generator)])
    after = diagnose(net, train, held_out=test)
    assert after.verdict.cost == "old"
    assert after.balanced.old_difference.low > 3
    assert all(layer.shares[newest] > 0.9 for layer in after.layers)
    assert after.as_is.newest >= before.as_is.newest
    assert after.layers[-1].distance > 0.3

    recalibrate(net, mixed(train))
    again = diagnose(net, train, held_out=test)
    assert again.verdict.cost == "none"
    assert again.as_is.old > after.as_is.old + 5
