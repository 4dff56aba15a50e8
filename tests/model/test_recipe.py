"""How models in use are trained: by an engineer's recipe, and older ones by their own."""

import pytest
import torch

from bntricks import Model
from bntricks.model.create import build, protocol
from bntricks.model.metadata import Metadata
from bntricks.model.options import NewModel
from bntricks.training.learner import Learner
from bntricks.training.optimisers import OPTIMISERS, Adam, GradientDescent
from bntricks.training.schedules import constant, one_cycle
from helpers.colours import FIRST, SECOND, pictures

SMALL = {"width": 4, "blocks": 1, "stages": 2, "memory": 24}


@pytest.fixture
def fresh():
    return Model.create({name: pictures(name) for name in FIRST}, **SMALL)


def test_no_epoch_ends_with_a_step_on_a_handful_of_images(fresh, monkeypatch):
    sizes, observe = [], Learner.observe

    def watched(learner, x, y, **how):
        sizes.append(len(y))
        return observe(learner, x, y, **how)

    monkeypatch.setattr(Learner, "observe", watched)
    images = {name: pictures(name, 44) for name in FIRST}  # 132 are two batches of 64, and four
    fresh.learn(images, held_out=0, epochs=2)
    assert sizes == [66] * 4


def test_a_new_model_has_the_engineers_recipe(fresh):
    state = fresh.learner.state
    assert isinstance(state.optimiser, Adam)
    assert state.optimiser.decoupled
    assert state.schedule is one_cycle
    assert state.optimiser.lr == fresh.metadata.lr == 0.003
    assert Model.create(pictures_of(FIRST), optimiser="sgd", **SMALL).metadata.lr == 0.03


def test_an_optimiser_of_ones_own_brings_its_rate(monkeypatch):
    def own(parameters, lr=0.25, decay=0.0):
        return GradientDescent(parameters, lr, decay)

    monkeypatch.setitem(OPTIMISERS.entries(), "test-own", own)
    assert protocol(NewModel(optimiser="test-own"))["lr"] == 0.25
    assert protocol(NewModel(optimiser="test-own", lr=0.5))["lr"] == 0.5
    monkeypatch.setitem(OPTIMISERS.entries(), "test-own", lambda parameters, lr, decay: None)
    assert protocol(NewModel(optimiser="test-own"))["lr"] == 0.03


def pictures_of(names):
    return {name: pictures(name) for name in names}


def test_a_model_from_before_goes_on_with_what_it_was_made_with(fresh):
    fresh.learn(pictures_of(FIRST), epochs=1)
    named = {"optimiser", "schedule", "even_batches"}
    values = {
        **fresh.metadata.model_dump(exclude=named),
        "method": "er-bnt",
        "hyper": {},
        "lr": 0.03,
    }
    old = Metadata.model_validate(values)
    learner = build(old, fresh.net, len(FIRST), "cpu")
    assert isinstance(learner.state.optimiser, GradientDescent)
    assert learner.state.schedule is constant
    assert learner.state.options.even_batches
    learner.state.lesson = fresh.learner.state.lesson
    learned = Model(learner, old, fresh.held_out).learn(pictures_of(SECOND), epochs=1)
    assert len(learned.tasks) == 2


def test_a_memory_with_room_for_all_images_loses_none_and_keeps_none_twice():
    model = Model.create(pictures_of(FIRST), **{**SMALL, "memory": 500})
    for names in (FIRST, SECOND):
        model.learn(pictures_of(names), held_out=0, epochs=2)
    memory = model.learner.memory
    stored = {bytes(x.numpy()) for x in memory.x[: len(memory)]}
    given = torch.cat([torch.from_numpy(pictures(name)) for name in (*FIRST, *SECOND)])
    assert stored == {bytes(x.numpy()) for x in given}
    assert len(memory) == len(stored)
