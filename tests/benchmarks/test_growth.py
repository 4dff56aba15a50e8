"""How costs grow: both ends of every axis are measured, and memory is counted to the byte."""

import pytest

from costs.growth import GrowthSettings, Size, held_bytes, learner_of, measure_growth

TINY = GrowthSettings(
    width=2, side=8, rounds=1, tasks=(1, 3), classes=(10, 20), memory=(40, 80), sides=(8, 12)
)


def test_every_method_has_four_rows_for_each_axis():
    rows = list(measure_growth(TINY))
    names = dict.fromkeys(row.name for row in rows)
    assert len(names) == 4 * len(TINY.methods)
    assert len(rows) == 4 * len(names)
    assert {row.part for row in rows} == {"step", "evaluation", "checkpoint", "memory"}
    bounded = {row.name.partition(" ")[0] + row.name.split()[1] for row in rows if row.bound}
    assert bounded == {"er-bnt,tasks", "er-bnt,memory"}
    assert "er-bnt, memory 40 to 80" in names


def test_memory_counts_what_is_stored():
    near, far = (learner_of("er-bnt", Size(memory=n, side=16), 2)[0] for n in (100, 200))
    image, labels_ids_tasks_scores = 3 * 16 * 16, 4 * 8
    assert held_bytes(far) - held_bytes(near) == 100 * (image + labels_ids_tasks_scores)


@pytest.mark.parametrize("method", TINY.methods)
def test_a_learner_is_in_the_last_of_its_tasks_with_a_full_memory(method):
    learner, _, y = learner_of(method, Size(tasks=3, classes=6, memory=30, side=16), 2)
    assert learner.state.lesson.t == 3
    assert set(y.tolist()) == set(learner.state.lesson.new) == {4, 5}
    assert len(learner.memory) == 30
    assert set(learner.memory.tasks.tolist()) == {1, 2, 3}
