"""Every method on devices that are not there: nothing falls, the numbers are the CPU's, and a step
hardly ever waits for the device."""

from functools import cache

import pytest
import torch

from bntricks.methods import entries, make
from bntricks.streams.augment import View
from bntricks.system.pretend import pretend
from bntricks.training.loop import learn_epochs
from bntricks.training.progress import Progress
from helpers.lessons import batches, images, third_task

KINDS = ["cuda", "mps"]
READING = {"gem": 1, "a-gem": 1, "gss": 2, "gss-bnt": 2}
"""How often a step may read from the device: GEM and A-GEM the angles between gradients, GSS the
score of a batch and then, of some, the scores of its samples."""


@cache
def on_cpu(name):
    return learned(name)


def learned(name, device=None):
    """The third task to its end, on this device; what the learner is then, and what it predicts."""
    learner = third_task(name, device=device)
    for x, y, ids in batches(3)[1:]:
        learner.observe(x, y, ids=ids)
    learner.end(*images(3))
    return learner, learner.predict(images(3)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(entries()))
def test_every_method_learns_on_a_device_as_on_the_cpu(name, kind):
    wanted, predicted = on_cpu(name)
    with pretend(kind):
        learner, found = learned(name, kind)
        assert {p.device.type for p in learner.net.parameters()} == {kind}
        weights = {key: value.cpu() for key, value in learner.net.state_dict().items()}
        stored = None if learner.memory is None else learner.memory.x.cpu()
    assert torch.equal(found, predicted)
    # Another layout adds up in another order, which mps must have.
    closeness = {"rtol": 0, "atol": 0} if kind == "cuda" else {"rtol": 0, "atol": 1e-3}
    for key, value in wanted.net.state_dict().items():
        torch.testing.assert_close(weights[key], value, **closeness, msg=key)
    if stored is not None:
        assert torch.equal(stored, wanted.memory.x)


@pytest.mark.parametrize("name", list(entries()))
def test_steps_on_cuda_hardly_ever_wait(name):
    x, y = images(3)
    with pretend("cuda") as gpu:
        learner = third_task(name, device="cuda")
        x, y = learner.mix_in_memory(x, y)
        steps = -(-len(y) // learner.state.options.batch)
        gpu.waits.clear()
        learn_epochs(learner, x, y, epochs=1, progress=Progress(lambda event: None, total=steps))
    # Losses are read twice a second and once an epoch, and samples are copied once a task.
    waits = {at: n for at, n in gpu.waits.items() if not at.startswith("training/progress.py")}
    assert sum(waits.values()) <= 1 + READING.get(name, 0) * steps, waits


@pytest.mark.parametrize("name", ["er-bnt", "lwf", "icarl", "gem", "fdr-bnt"])
def test_a_task_too_large_for_the_device_stays_on_the_host(name):
    x, y = images(4)
    with pretend("cuda", free_bytes=len(x)) as gpu:
        learner, found = learned(name, "cuda")
        learner.grow(8)
        learner.state.tasks = 4
        learner.begin([6, 7], x, y)
        gpu.waits.clear()
        learn_epochs(learner, x, y, epochs=1, progress=Progress(lambda event: None, total=3))
    assert torch.equal(found, on_cpu(name)[1])
    assert not [line for line in gpu.waits if line.startswith("devices.py")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_learner_computes_where_the_network_is(kind):
    from bntricks import Learner
    from bntricks.networks.resnet import ResNet

    with pretend(kind):
        net = ResNet(2, width=2, blocks=1, stages=2).to(kind)
        learner = Learner(net, make("er-bnt"))
        assert learner.device.type == kind
        assert learner.memory.device.type == kind
    assert Learner(ResNet(2, width=2), make("er-bnt")).device.type == "cpu"


@pytest.mark.parametrize("kind", KINDS)
def test_samples_labels_and_ids_may_come_on_the_device(kind):
    with pretend(kind):
        learner = third_task("er-bnt", device=kind)
        x, y, ids = (part.to(kind) for part in batches(3)[1])
        learner.observe(x, y, ids=ids)
        assert learner.memory.ids.device.type == "cpu"


@pytest.mark.parametrize("kind", KINDS)
def test_a_tracking_pass_forks_the_generator_of_its_device(kind):
    from torch import nn

    from bntricks.norm import update_ema

    with pretend(kind):
        x = torch.randn(4, 3, device=kind)
        net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()).to(kind)
        module = getattr(torch, kind)
        before = module.set_rng_state.call_count
        update_ema(net, x)
        assert module.set_rng_state.call_count == before + 1


def test_the_constants_of_a_view_are_copied_to_a_device_once():
    view = View((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    x = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    with pretend("mps") as gpu:
        on_device = x.to("mps")
        with torch.inference_mode():
            first = view(on_device)
        gpu.waits.clear()
        assert torch.equal(view(on_device).requires_grad_().cpu(), first.cpu())
    assert list(gpu.waits.values()) == [2]  # the two copies that are compared
    assert torch.equal(view(x), first)


def test_the_drift_of_all_layers_is_read_at_once():
    from bntricks.networks.resnet import ResNet
    from bntricks.norm import drift, phi

    with pretend("cuda") as gpu:
        net = ResNet(2, width=2, blocks=1, stages=2).to("cuda")
        then = phi(net)
        gpu.waits.clear()
        assert len(drift(net, then)) > 1
    assert gpu.waits.total() == 1
