"""docs/teaching.md shows what its benchmarks measured."""

import json

from helpers.pages import DOCS
from teach import shown_table
from teach_choices import table

PAGE = (DOCS / "teaching.md").read_text(encoding="utf-8")


def results(name):
    return json.loads((DOCS / "teaching" / name).read_text(encoding="utf-8"))


def test_the_page_has_the_table_of_the_models_that_were_taught():
    assert shown_table(results("learn.json")) in PAGE


def test_the_page_has_a_table_of_the_choices_on_every_set_of_images():
    choices = results("choices.json")
    assert choices
    for name in choices:
        assert table(choices, name) in PAGE


def test_a_difference_is_between_runs_of_one_seed():
    accuracy = {
        "0": {"accuracy": [[70.0] * 3, [60.0] * 9]},
        "1": {"accuracy": [[80.0] * 3, [50.0] * 9]},
    }
    without = {"1": {"accuracy": [[80.0] * 3, [45.0] * 9]}}
    rows = shown_table({"few": accuracy, "few, unbalanced batches": without}).splitlines()
    assert "| gain by balanced batches | 5.0 | – | 5.0 |" in rows
    assert any(line.startswith("| four folders, 20 images a class | 55.0 |") for line in rows)
