"""Which task samples belong to, when nobody says so, and what becomes of the memory then."""

import numpy as np
import pytest
import torch

from bntricks import Learner, UserError, make
from bntricks.estimator.data import NO_LABELS
from bntricks.estimator.lessons import follow, learn_samples
from bntricks.recipes.lesson import Lesson
from helpers.tiny import network


def learner(method, memory=12, **more):
    return Learner(network(), make(method), memory=memory, batch=4, **more)


def give(learner, *classes, count=8, epochs=1):
    y = torch.tensor(classes).repeat(count)
    x = torch.randn(len(y), 5, generator=torch.Generator().manual_seed(1)) + y[:, None]
    learn_samples(learner, x, y, outputs=6, lr=0.03, epochs=epochs)


def shares(learner):
    memory = learner.memory
    return torch.bincount(memory.y[: memory.filled], minlength=6).tolist()


@pytest.mark.parametrize(
    ("present", "t", "new", "old"),
    [
        ({4, 5}, 3, (4, 5), (0, 1, 2, 3)),  # new classes are a new task
        ({2, 3}, 2, (2, 3), (0, 1)),  # the current task goes on
        ({3}, 2, (2, 3), (0, 1)),  # also with some of its classes
        ({0}, 3, (0,), (1, 2, 3)),  # an old class is current again
        ({1, 2, 5}, 3, (1, 2, 5), (0, 3)),  # with a new one, and one of the current task
    ],
)
def test_the_classes_that_come_decide_which_task_it_is(present, t, new, old):
    before, classes = follow(Lesson(2, (2, 3), (0, 1), 9), present)
    assert (before.t + 1, classes, before.old) == (t, new, old)
    assert before.new == ()


def test_a_class_is_never_lost_and_never_seen_twice():
    seen = learner("er-bnt")
    for classes in ((0, 1), (1, 2), (1,), (0,), (3, 4, 5), (2, 5)):
        give(seen, *classes)
    lesson = seen.state.lesson
    assert sorted(lesson.seen) == [0, 1, 2, 3, 4, 5]
    assert (lesson.t, lesson.new) == (5, (2, 5))


def test_a_task_that_goes_on_has_the_size_of_all_its_samples():
    going = learner("icarl-bnt")
    give(going, 0, 1)
    give(going, 0)
    assert (going.state.lesson.t, going.state.lesson.size) == (1, 24)
    give(going, 2)
    assert (going.state.lesson.t, going.state.lesson.size) == (2, 8)


def test_exemplars_of_a_class_that_comes_again_are_chosen_among_all_its_samples():
    again = learner("icarl-bnt", memory=12)
    give(again, 0, 1, count=6)
    kept = {bytes(x.numpy()) for x in again.memory.x[: again.memory.filled]}
    give(again, 0, 2, count=2)
    assert shares(again) == [4, 4, 2, 0, 0, 0]
    now = {bytes(x.numpy()) for x in again.memory.x[: again.memory.filled]}
    assert len(kept & now) >= 6


def test_the_memory_is_mixed_in_where_the_recipe_says_so():
    mixing = learner("icarl", memory=12)
    give(mixing, 0, 1)
    assert mixing.cost.steps == 4
    give(mixing, 2)  # 8 samples, and 12 exemplars
    assert mixing.cost.steps == 4 + 5


@pytest.mark.parametrize("method", ["gem", "a-gem", "fdr", "fdr-bnt"])
def test_a_task_that_goes_on_keeps_to_its_share(method):
    sharing = learner(method, tasks=3)
    for classes in ((0, 1), (0,), (0, 1), (2, 3), (2,), (1, 4)):
        give(sharing, *classes)
        assert len(sharing.memory) <= 12
    counts = [len(sharing.memory.of_task(t)) for t in (1, 2, 3)]
    assert max(counts) == counts[2] == 4
    assert counts[0] > 0


def test_what_cannot_be_kept_is_refused_before_anything_changes():
    full = learner("icarl", memory=3)
    give(full, 0, 1)
    before = {name: value.clone() for name, value in full.net.state_dict().items()}
    with pytest.raises(UserError, match="each class, and there are 4: a memory of 3"):
        give(full, 2, 3)
    assert full.state.lesson.seen == (0, 1)
    assert all(torch.equal(value, before[name]) for name, value in full.net.state_dict().items())
    with pytest.raises(UserError, match="of each task, and there are 5"):
        give(learner("gem", memory=4, tasks=5), 0)


def test_tasks_beyond_those_the_memory_is_shared_among_are_refused():
    planned = learner("gem", tasks=1)
    give(planned, 0, 1)
    give(planned, 1)  # goes on
    with pytest.raises(UserError, match="shared out among 1 tasks"):
        give(planned, 2)


def test_labels_keep_their_outputs_and_are_shown_sorted():
    labels = NO_LABELS.joined(np.array(["d", "b", "d"])).joined(np.array(["c", "b", "longer"]))
    assert labels.outputs.tolist() == ["b", "d", "c", "longer"]
    assert labels.classes.tolist() == ["b", "c", "d", "longer"]
    assert labels.columns(np.array(["longer", "b", "c", "d"])).tolist() == [3, 0, 2, 1]


def test_a_list_of_classes_is_given_once():
    closed = NO_LABELS.joined(np.array([5]), listed=[9, 5])
    assert closed.joined(np.array([9])) is closed
    assert closed.joined(np.array([9]), listed=[5, 9, 9]).outputs.tolist() == [5, 9]
    with pytest.raises(UserError, match="classes are now 5, 7, and were 5, 9"):
        closed.joined(np.array([5]), listed=[5, 7])
    with pytest.raises(UserError, match="y holds 'x', not in classes"):
        NO_LABELS.joined(np.array(["x", "y"]), listed=["y"])
    with pytest.raises(UserError, match="now like 'x', and were like 5"):
        closed.joined(np.array(["x"]))
