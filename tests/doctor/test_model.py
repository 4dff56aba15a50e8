"""The check-up after a lesson: moments from the memory if it can, accuracy on held-out images."""

from dataclasses import replace

import pytest

from bntricks import UserError, diagnose
from bntricks.doctor.images import Photos
from bntricks.doctor.model import checkup, model_images
from bntricks.model.model import Model
from bntricks.recipes.classifiers import NearestMean
from bntricks.streams.files.archive import Folder
from helpers.colours import SECOND, pictures


@pytest.fixture
def taught_twice(model):
    model = Model.load(model)
    assert checkup(model) is None  # there is nothing old yet
    model.learn({name: pictures(name) for name in SECOND}, epochs=4)
    return model


def groups(model, images):
    """By hand: the first three outputs are the first task."""
    first = images.y < 3
    return {
        name: [(model.view(images.x[rows], None), images.y[rows])]
        for name, rows in (("task 1", first), ("task 2", ~first))
    }


def test_moments_come_from_the_memory_and_accuracy_from_every_held_out_image(taught_twice):
    model, memory = taught_twice, taught_twice.learner.memory
    assert set(memory.y.tolist()) == set(range(len(model.classes)))
    expected = diagnose(model.net, groups(model, memory), held_out=groups(model, model.held_out))
    assert sum(group.samples for group in expected.groups) == len(memory) == 24
    assert checkup(model) == expected.verdict


def test_a_memory_that_lacks_a_class_leaves_it_to_the_held_out_images(taught_twice):
    model, memory = taught_twice, taught_twice.learner.memory
    memory.y[memory.y == 4] = 3
    assert checkup(model) == diagnose(model.net, groups(model, model.held_out)).verdict


def test_without_held_out_images_nothing_is_said(taught_twice):
    taught_twice.held_out = None
    assert checkup(taught_twice) is None


def test_a_classifier_that_moves_with_the_statistics_is_not_judged(taught_twice, tmp_path):
    state = taught_twice.learner.state
    state.method = replace(state.method, classify=NearestMean())
    assert checkup(taught_twice) is None
    with pytest.raises(UserError, match="classifies by the nearest class mean, which moves with φ"):
        model_images(taught_twice, Photos(Folder(tmp_path), []))


def test_a_model_of_anything_but_images_is_for_python(taught_twice, tmp_path):
    metadata = taught_twice.metadata.model_copy(update={"shape": (6,)})
    of_vectors = replace(taught_twice, metadata=metadata)
    with pytest.raises(UserError, match="does not take images: examine it in Python"):
        model_images(of_vectors, Photos(Folder(tmp_path), []))


def test_a_model_that_has_learned_one_task_has_no_old_classes(model, tmp_path):
    with pytest.raises(UserError, match=r"learned one task only, .* \(groups\)"):
        model_images(Model.load(model), Photos(Folder(tmp_path), []))
