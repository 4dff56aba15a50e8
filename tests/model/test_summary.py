"""What `learn` says about its own work: nothing wrong goes unmentioned."""

from types import SimpleNamespace

import pytest
import torch

from bntricks.model.summary import summarise
from bntricks.streams import Images

GROUPS = (("cat", "dog"), ("owl",))
BEFORE = [(0, 0)] * 8 + [(0, 1)] * 2 + [(1, 1)] * 10
GOOD = [(0, 0)] * 9 + [(0, 2)] + [(1, 1)] * 8 + [(1, 0)] * 2 + [(2, 2)] * 10


def summary(answered, *, before=BEFORE, groups=GROUPS, losses=(1.0, 0.5, 0.2), more=None):
    """Of a model that takes held-out images for these classes: pairs of a label and an answer. It
    just learned the last group, or `more` of known classes."""
    lesson = SimpleNamespace(classes=() if more else groups[-1], more=more or ())
    labels, predicted = (torch.tensor(part) for part in zip(*answered, strict=True))
    model = SimpleNamespace(
        frozen=None,
        test_scores=lambda x: torch.eye(9)[predicted],
        tests=Images(torch.zeros(len(labels), 3, 8, 8, dtype=torch.uint8), labels),
        groups=groups,
        metadata=SimpleNamespace(taught=(lesson,)),
        classes=tuple(name for group in groups for name in group),
    )
    return summarise(model, before, model.tests, unreadable=(), losses=losses)


def test_a_good_lesson_raises_no_concern_and_is_told_by_task_class_and_pair():
    learned = summary(GOOD)
    assert learned.concerns == ()
    assert not learned.learn_again
    assert [(task.before, task.after) for task in learned.tasks] == [(90, 85), (None, 100)]
    assert [(own.classes, own.images, own.after) for own in learned.classes] == [
        (("cat",), 10, 90),
        (("dog",), 10, 80),
        (("owl",), 10, 100),
    ]
    first, second = learned.confused
    assert (first.label, first.taken_for, first.images, first.percent) == ("dog", "cat", 2, 20)
    assert (second.label, second.taken_for, second.images, second.percent) == ("cat", "owl", 1, 10)
    assert learned.losses == (1.0, 0.5, 0.2)


def test_a_model_that_guesses_is_not_handed_over_in_silence():
    guesses = [(label, answer) for label in range(3) for answer in (0, 1, 2) for _ in range(4)]
    (concern, *_) = summary(guesses, before=[]).concerns
    assert "right on 33.3% of the 36 test images of its classes. Guessing is right on 33.3%" in (
        concern
    )
    assert "do not use it" in concern


def test_new_classes_that_were_not_learned_are_named_though_the_rest_is_fine():
    unlearned = [(0, 0)] * 10 + [(1, 1)] * 10 + [(2, 0)] * 9 + [(2, 2)]
    (concern,) = summary(unlearned).concerns
    assert "10.0% of the 10 test images of the classes just learned" in concern
    (concern,) = summary(unlearned, more=("cat",)).concerns  # this time the owls are old
    assert concern.startswith("Recognised no more often than by guessing (33.3%): 'owl' (10.0%)")


def test_what_even_luck_could_do_is_no_evidence_and_no_reason_to_learn_again():
    right = [(label, label) for label in range(2) for _ in range(2)]
    learned = summary(right, before=[], groups=(("cat",), ("dog",)))
    (concern,) = learned.concerns
    assert concern == (
        "With 4 test images of its classes, 100.0% cannot be told from guessing: add images."
    )
    assert not learned.learn_again
    (concern,) = summary([(0, 0), (1, 1)] * 8 + [(2, 2)], before=[]).concerns
    assert concern.startswith("With 1 test image of the classes just learned, 100.0% cannot")


@pytest.mark.parametrize(
    "change",
    [
        {"losses": (1.0, 0.2, 1.4)},
        {"answered": [(label, 0) for label in range(3) for _ in range(12)], "before": []},
        {"answered": [(0, 2)] * 10 + [(1, 1)] * 10 + [(2, 2)] * 10},
    ],
)
def test_a_lesson_that_went_wrong_is_to_be_learned_again(change):
    learned = summary(**{"answered": GOOD} | change)
    assert learned.learn_again
    assert "learn again, from the model as it was before" in learned.concerns[-1]


def test_luck_is_larger_where_a_class_has_few_images():
    """0.42 on average over 204 images, of which two classes have two each."""
    answered = [(0, 0)] * 50 + [(0, 1)] * 150 + [(1, 1), (1, 0), (2, 2), (2, 0)]
    (concern,) = summary(answered, before=[], groups=(("cat", "dog", "owl"),)).concerns
    assert "right on 41.7%" in concern
    assert "with luck on 64.8%" in concern
    even = [(k, k if n < 29 else (k + 1) % 3) for k in range(3) for n in range(68)]
    assert summary(even, before=[], groups=(("cat", "dog", "owl"),)).concerns == ()


def test_a_class_that_is_never_recognised_is_named_though_the_others_are():
    never = [(0, 0)] * 12 + [(1, 1)] * 12 + [(2, 0)] * 12
    (concern,) = summary(never, before=[], groups=(("cat", "dog", "owl"),)).concerns
    assert "no more often than by guessing (33.3%): 'owl' (0.0%)" in concern


def test_a_loss_that_rose_at_the_end_is_mentioned():
    (concern,) = summary(GOOD, losses=(1.0, 0.3, 0.2, 1.4)).concerns
    assert "rose from 0.20 in epoch 3 to 1.40" in concern
    assert "lower learning rate" in concern
    assert summary(GOOD, losses=(1.0, 0.3, 0.2, 0.25)).concerns == ()


def test_old_classes_that_lost_more_than_a_third_are_mentioned():
    forgotten = [(0, 0)] * 6 + [(0, 2)] * 4 + [(1, 1)] * 5 + [(1, 2)] * 5 + [(2, 2)] * 10
    (concern,) = summary(forgotten).concerns
    assert "those of task 1 from 90.0% to 55.0%" in concern
    assert "memory" in concern


def test_one_old_class_that_fell_is_named_though_its_task_did_not():
    fallen = [(0, 0)] * 5 + [(0, 2)] * 5 + [(1, 1)] * 10 + [(2, 2)] * 10
    (concern,) = summary(fallen).concerns
    assert "more than a third of their accuracy: 'cat' from 80.0% to 50.0%." in concern


def test_pairs_are_ordered_by_their_share_of_the_class():
    mixed = [(0, 0)] * 36 + [(0, 2)] * 4 + [(1, 1)] * 8 + [(1, 0)] * 2 + [(2, 2)] * 10
    assert [pair.label for pair in summary(mixed).confused] == ["dog", "cat"]


def test_a_model_of_one_class_has_nothing_to_be_proud_of():
    (concern,) = summary([(0, 0)] * 10, before=[], groups=(("cat",),)).concerns
    assert "knows one class" in concern


def test_what_was_not_measured_is_named_and_not_judged():
    learned = summary([(0, 0)], before=[], groups=(("cat", "dog"),))
    assert learned.all.after is None
    assert learned.concerns == ("Not measured: there are no test images of 'dog'.",)
