"""Two names of one recipe are one run: trained once, and rightly so."""

from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field, validate_call

from bntricks.methods import entries, make, same_recipe
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.sweeps.estimate import seconds_left
from bntricks.sweeps.local import Shared

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1, "memory": 20}
TIMED = {"seconds", "finished", "images_per_second", "peak_memory_mb", "already_there"}


def test_only_what_is_the_same_counts_as_the_same():
    found = {name: same_recipe(name, entry.hyper()) for name, entry in entries().items()}
    tracker, parted = "er-bnt-imbalance-tracker", "er-cur+buf"
    assert {name: others for name, others in found.items() if others} == {
        tracker: [parted],
        parted: [tracker],
    }
    assert same_recipe("der", {"alpha": 0.2}) == []


def test_a_hyper_parameter_that_another_method_refuses_is_no_mistake(monkeypatch):
    @validate_call
    def strict(alpha: Annotated[float, Field(gt=1)] = 2.0):
        return make("der", alpha=alpha)

    entry = replace(entries()["der"], name="strict", factory=strict)
    monkeypatch.setitem(entries(), "strict", entry)
    assert same_recipe("der", {"alpha": 1.5}) == ["strict"]
    assert same_recipe("der", {"alpha": 0.5}) == []


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder in which ER-Cur+Buf has been trained."""
    folder = tmp_path_factory.mktemp("runs")
    run(Config(method="er-cur+buf", **TINY), out=folder)
    return folder


def test_a_namesakes_record_is_what_training_gives(out):
    config = Config(method="er-bnt-imbalance-tracker", **TINY)
    assert seconds_left([config], Shared(out=out)) == 0
    record = run(config, out=out)
    assert record.already_there
    assert record.trained_as == "er-cur+buf"
    assert run(config, out=out).trained_as == "er-cur+buf"
    trained = run(config, out=out, force=True)
    assert not trained.already_there
    assert run(config, out=out).trained_as is None
    borrowed, own = record.to_json(), trained.to_json()
    assert borrowed.pop("trained_as") == "er-cur+buf"
    for key in borrowed.keys() | own.keys():
        assert key in TIMED or borrowed[key] == own[key], key


def test_other_protocols_and_other_recipes_are_not_taken_for_it(out):
    for change in ({"seed": 1}, {"method": "er-bnt"}):
        config = Config(**{"method": "er-bnt-imbalance-tracker", **TINY, **change})
        assert not run(config, out=out).already_there
