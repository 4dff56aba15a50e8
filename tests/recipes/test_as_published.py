"""`--as-published` changes what it says and nothing else."""

import pytest
import torch

from bntricks.batch import Batch
from bntricks.methods import entries, make
from bntricks.recipes.as_published import concerns, corrupted, unaugmented
from bntricks.runs.train import with_memory
from bntricks.streams import Images, View, open_stream
from bntricks.training.learner import Learner
from helpers.tiny import network

pytestmark = pytest.mark.law


def test_only_the_methods_that_slipped_are_concerned():
    slipped = {name for name in entries() if concerns(make(name))}
    assert slipped == {"icarl", "gss", "gss-bnt", "lwf", "fdr"}


def test_corrupted_exemplars_are_dark_and_turned():
    stream = open_stream("seq-digits")
    x = stream[0].train.x[:4]
    spoiled = corrupted(x, stream)
    expected = (x.float() * stream.std[0] + stream.mean[0]).floor().transpose(2, 3)
    assert torch.equal(spoiled.float(), expected)
    assert spoiled.max() < 0.5 * x.max()


@pytest.mark.parametrize("as_published", [False, True])
def test_mixed_exemplars_are_spoiled_only_when_asked(as_published):
    stream = open_stream("seq-digits")
    learner = Learner(network(), make("icarl"), memory=10, as_published=as_published)
    stored = stream[0].train.x[:3]
    learner.memory.append(Batch(stored, stream[0].train.y[:3]), task=1)
    task = stream[1].train
    x, y = with_memory(learner, task, stream)
    assert torch.equal(x[: len(task)], task.x)
    assert torch.equal(y[len(task) :], stream[0].train.y[:3])
    assert torch.equal(x[len(task) :], stored) != as_published


def test_unnormalised_inputs_are_pixels_from_zero_to_one():
    view = View((0.5,), (0.25,))
    images = Images(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), torch.tensor([0]))
    values = {}
    for as_published in (False, True):
        learner = Learner(network(), make("sgd"), view=view, as_published=as_published)
        values[as_published] = unaugmented(learner.state, images.x).flatten().tolist()
    assert values == {False: [-2.0, 2.0], True: [0.0, 1.0]}
