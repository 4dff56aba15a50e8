"""The doctor after a lesson: moments from the memory where it can, measured on all test images."""

import pytest

from bntricks import Learner, diagnose
from bntricks.doctor.checkup import checkup
from helpers.colours import SECOND, pictures


@pytest.fixture
def learner(model):
    learner = Learner.load(model)
    assert checkup(learner) is None  # there is nothing old yet
    learner.learn({name: pictures(name) for name in SECOND}, epochs=4, sink=lambda event: None)
    return learner


def groups(learner, images):
    """By hand: the first three outputs are the first task."""
    first = images.y < 3
    return {
        name: [(learner.view(images.x[rows], None), images.y[rows])]
        for name, rows in (("task 1", first), ("task 2", ~first))
    }


def test_moments_come_from_the_memory_and_accuracy_from_every_test_image(learner):
    assert set(learner.memory.y.tolist()) == set(range(len(learner.classes)))
    expected = diagnose(
        learner.net, groups(learner, learner.memory), held_out=groups(learner, learner.tests)
    )
    assert sum(group.samples for group in expected.groups) == len(learner.memory) == 24
    assert checkup(learner) == expected.verdict


def test_a_memory_that_lacks_a_class_leaves_it_to_the_test_images(learner):
    learner.memory.y[learner.memory.y == 4] = 3
    assert checkup(learner) == diagnose(learner.net, groups(learner, learner.tests)).verdict


def test_without_test_images_nothing_is_said(learner):
    learner.tests = None
    assert checkup(learner) is None
