"""Whole runs of the engine, from seed to accuracies, equal plain loops over the same images with
the same generators: Joint without augmentation, ER-BNT with crops and flips (spec 1, 2, 6)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from bntricks.errors import UserError
from bntricks.networks.resnet import ResNet
from bntricks.runs.config import Config
from bntricks.runs.train import build, is_chance, train, with_memory
from bntricks.seeds import Generators, construction
from bntricks.streams import View, from_arrays
from helpers.twin import Past, loader, samples, stacked

pytestmark = pytest.mark.reference

PAD = 2
SMALL = {"width": 4, "blocks": 1, "stages": 2, "batch": 8, "seed": 5, "lr": 0.05}
COUNTS = (13, 12, 12, 12)  # tasks of 25 and 24 images: batches of 8, 8 and 9, and of 8, 8 and 8


@pytest.fixture(scope="module")
def stream():
    """Two tasks of two classes each; a class is a bright row."""
    rng = np.random.default_rng(0)

    def images(y):
        x = rng.integers(0, 120, (len(y), 3, 8, 8))
        x[np.arange(len(y)), :, 2 * y] += 120
        return x.astype(np.uint8)

    train_y, test_y = np.repeat(np.arange(4), COUNTS), np.repeat(np.arange(4), 5)
    return from_arrays(images(train_y), train_y, images(test_y), test_y, pad=PAD, flip=True)


def fresh(stream, generators):
    with construction(generators.init):
        net = ResNet(len(stream.class_names), width=4, blocks=1, stages=2)
    return net.to(memory_format=torch.channels_last).train()


def descend(net, loss):
    for p, g in zip(net.parameters(), torch.autograd.grad(loss, net.parameters()), strict=True):
        p.data.sub_(g, alpha=SMALL["lr"])


@torch.no_grad()
def accuracies(net, task, inputs):
    """In percent, by the largest of all logits, and of the task's own."""
    h = net.eval()(inputs(task.test.x))
    net.train()
    own = h[:, list(task.classes)].argmax(1) + task.classes[0]
    return [
        100 * sum(p == y for p, y in zip(said, task.test.y, strict=True)).item() / len(h)
        for said in (h.argmax(1), own)
    ]


def test_joint_is_one_plain_training_on_the_union_of_all_tasks(stream):
    outcome = train(Config(method="joint", augment="none", epochs=3, **SMALL), stream)

    generators, view = Generators.of(SMALL["seed"]), View(stream.mean, stream.std)
    net = fresh(stream, generators)
    x = torch.cat([task.train.x for task in stream])
    y = torch.cat([task.train.y for task in stream])
    for _ in range(3):
        for ids in loader(torch.randperm(len(y), generator=generators.order), SMALL["batch"]):
            descend(net, F.cross_entropy(net(view(x[ids])), y[ids]))

    for name, value in outcome.learner.net.state_dict().items():
        assert torch.equal(value, net.state_dict()[name]), name
    last = [accuracies(net, task, view) for task in stream]
    assert outcome.accuracy == [[None, None], [whole for whole, _ in last]]
    assert outcome.within == [[None, None], [own for _, own in last]]


def normalised(image, stream):
    mean, std = torch.tensor(stream.mean), torch.tensor(stream.std)
    return (image / 255 - mean[:, None, None]) / std[:, None, None]


def cropped_and_flipped(x, stream, generator):
    """Image by image: a window somewhere in the image with a black border, mirrored or not."""
    top, left = torch.randint(2 * PAD + 1, (2, len(x)), generator=generator).tolist()
    mirrored = (torch.rand(len(x), generator=generator) < 0.5).tolist()
    seen = []
    for image, row, column, mirror in zip(x, top, left, mirrored, strict=True):
        canvas = torch.zeros(3, 8 + 2 * PAD, 8 + 2 * PAD, dtype=torch.uint8)
        canvas[:, PAD : PAD + 8, PAD : PAD + 8] = image
        window = canvas[:, row : row + 8, column : column + 8]
        seen.append(normalised(window[:, :, range(7, -1, -1)] if mirror else window, stream))
    return torch.stack(seen)


def untracked(net, x):
    """h(x) with batch statistics; what moves is a copy of φ."""
    return functional_call(net, {name: b.clone() for name, b in net.named_buffers()}, (x,))


def test_er_bnt_with_crops_and_flips_is_a_plain_loop_of_algorithm_1(stream):
    config = Config(method="er-bnt", epochs=1, memory=10, memory_batch=6, **SMALL)
    outcome = train(config, stream)

    generators = Generators.of(SMALL["seed"])
    net = fresh(stream, generators)
    past = Past(generators, capacity=10, memory_batch=6)
    accuracy = [[None, None], [None, None]]
    within = [[None, None], [None, None]]
    for t, task in enumerate(stream, 1):
        past.arrive(task.classes, len(task.train))
        order = torch.randperm(len(task.train), generator=generators.order)
        parts = loader(order, SMALL["batch"])
        assert len(parts) == 3
        for ids in parts:
            raw = samples(task.train.x[ids], task.train.y[ids])
            x, y = stacked(raw)
            bt = samples(cropped_and_flipped(x, stream, generators.stream_augmentation), y)
            drawn = past.draw()
            bm = []
            if drawn:
                x, y = stacked(drawn)
                bm = samples(cropped_and_flipped(x, stream, generators.replay_augmentation), y)
            with torch.no_grad():
                net(stacked(past.balanced(bt, bm))[0])
            loss = sum(
                F.cross_entropy(untracked(net, stacked(b)[0]), stacked(b)[1]) for b in (bt, bm) if b
            )
            descend(net, loss)
            past.reservoir(raw)
        for j, earlier in enumerate(stream[:t]):
            accuracy[t - 1][j], within[t - 1][j] = accuracies(
                net, earlier, lambda x: normalised(x, stream)
            )

    # Normalisation is written otherwise than in View, so the last bits may differ.
    for name, value in outcome.learner.net.state_dict().items():
        assert torch.allclose(value, net.state_dict()[name], rtol=1e-6, atol=1e-6), name
    x, y = stacked(past.slots)
    assert torch.equal(outcome.learner.memory.x, x)
    assert torch.equal(outcome.learner.memory.y, y)
    assert outcome.accuracy == accuracy
    assert outcome.within == within


def test_icarls_batches_run_over_the_task_and_its_exemplars(stream):
    config = Config(method="icarl", epochs=2, memory=11, **SMALL)
    first, second = (task.train for task in stream)
    before = build(config, stream)
    assert with_memory(before, first, stream)[0] is first.x

    learner = train(config, stream[:1]).learner
    x, y = with_memory(learner, second, stream)
    assert torch.equal(x, torch.cat([second.x, learner.memory.x[:10]]))
    assert torch.equal(y, torch.cat([second.y, torch.tensor([0] * 5 + [1] * 5)]))
    # 25 images in batches of 8, 8 and 9; then 24 and 10 exemplars in batches of 8, 8, 8, 8 and 2.
    assert train(config, stream).learner.cost.steps == 2 * (3 + 5)


def test_the_batches_of_icarl_bnt_are_of_the_task_alone(stream):
    config = Config(method="icarl-bnt", epochs=1, memory=11, **SMALL)
    learner = train(config, stream[:1]).learner
    assert len(learner.memory) == 10
    assert with_memory(learner, stream[1].train, stream)[0] is stream[1].train.x


def test_a_streams_own_defaults_hold_for_every_way_in(stream):
    def recipe(name, **hyper):
        config = Config(method="lwf", hyper=hyper, epochs=1, stream="seq-cifar10", **SMALL)
        return str(train(config, replace(stream, name=name)[:1]).learner.method.updates[0])

    assert recipe("seq-cifar10") == "CE_seen(B_t) + 3·LwF(B_t)"
    assert recipe("seq-cifar10", alpha=2.0) == "CE_seen(B_t) + 2·LwF(B_t)"
    # What is trained on decides, also where the configuration names another stream.
    assert recipe("arrays") == "CE_seen(B_t) + LwF(B_t)"


def test_a_memory_batch_of_one_cannot_be_normalised_and_is_refused(stream):
    with pytest.raises(UserError, match=r"^memory_batch 1: .* make it 2 or more"):
        train(Config(method="er-bnt", memory_batch=1, **SMALL), stream)


@pytest.mark.parametrize(("method", "lr"), [("er", 1e9), ("sgd", 1e4), ("joint", 1e9)])
def test_a_run_that_has_lost_its_way_says_so_once(stream, method, lr):
    def warnings(lr):
        told = []
        config = Config(method=method, lr=lr, epochs=2, **{k: SMALL[k] for k in SMALL if k != "lr"})
        train(config, stream, sink=told.append)
        return [event["text"] for event in told if event["event"] == "warning"]

    assert warnings(0.05) == []
    [line] = warnings(lr)
    assert "accuracy is at chance: lower the learning rate" in line


def test_chance_is_what_guessing_among_the_classes_so_far_would_reach(stream):
    assert is_chance([50.0, None], stream)  # of two classes
    assert not is_chance([90.0, None], stream)
    assert is_chance([0.0, 60.0], stream)  # of four
    assert not is_chance([20.0, 60.0], stream)
