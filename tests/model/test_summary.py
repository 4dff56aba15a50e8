"""What `learn` says about its own work: nothing wrong goes unmentioned."""

from types import SimpleNamespace

import pytest

from bntricks.model.summary import summarise

GROUPS = (("cat", "dog"), ("owl",))
BEFORE = [(0, 0)] * 8 + [(0, 1)] * 2 + [(1, 1)] * 10
GOOD = [(0, 0)] * 9 + [(0, 2)] + [(1, 1)] * 8 + [(1, 0)] * 2 + [(2, 2)] * 10


def summary(
    answered, *, before=BEFORE, groups=GROUPS, losses=(1.0, 0.5, 0.2), more=None, gate=None
):
    """Of a model that takes held-out images for these classes: pairs of a label and an answer. It
    just learned the last group, or `more` of known classes."""
    lesson = SimpleNamespace(classes=() if more else groups[-1], more=more or ())
    model = SimpleNamespace(
        frozen=None,
        learner=SimpleNamespace(memory=None),
        groups=groups,
        metadata=SimpleNamespace(taught=(lesson,)),
        classes=tuple(name for group in groups for name in group),
    )
    return summarise(model, before, answered, gate, len(answered), unreadable=(), losses=losses)


def test_a_good_lesson_raises_no_concern_and_is_told_by_task_class_and_pair():
    learned = summary(GOOD)
    assert learned.concerns == ()
    assert [(task.before, task.after) for task in learned.tasks] == [
        (90, pytest.approx(85)),
        (None, 100),
    ]
    assert learned.all.low < learned.all.after < learned.all.high
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


def test_what_even_luck_could_do_is_no_evidence():
    right = [(label, label) for label in range(2) for _ in range(2)]
    learned = summary(right, before=[], groups=(("cat",), ("dog",)))
    (concern,) = learned.concerns
    assert concern == (
        "With 4 test images of its classes, 100.0% cannot be told from guessing: add images."
    )
    (concern,) = summary([(0, 0), (1, 1)] * 8 + [(2, 2)], before=[]).concerns
    assert concern.startswith("With 1 test image of the classes just learned, 100.0% cannot")


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
