"""The scripts about vectors print what the docs show, for small choices of what to measure."""

import re

import pytest

import phi_on_vectors
import vectors


@pytest.fixture
def printed(monkeypatch, capsys):
    def run(script, *arguments):
        monkeypatch.setattr("sys.argv", ["script", *arguments])
        script.main()
        lines = capsys.readouterr().out.strip().splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    return run


def test_a_row_for_each_data_set_and_memory_that_does_not_hold_everything(printed):
    head, _, *rows = printed(
        vectors, "--data", "wine", "--memory", "20", "500", "--seeds", "1", "--columns", "nearest"
    )
    assert head == ["data", "memory", "nearest"]
    ((data, memory, accuracy),) = rows
    assert (data, memory) == ("wine", "20")
    assert 80 < float(accuracy) <= 100


@pytest.mark.slow
def test_methods_learn_the_data_sets(printed):
    *_, row = printed(
        vectors, "--data", "wine", "--memory", "50", "--seeds", "1", "--columns", "er", "all"
    )
    assert min(map(float, row[2:])) > 60


def test_φ_is_swapped_after_training_and_put_back(printed):
    head, _, row = printed(phi_on_vectors, "--only", "tasks", "--seeds", "1", "--epochs", "1")[:3]
    assert len(head) == len(row) == 1 + 2 * len(phi_on_vectors.READ)
    assert all(re.fullmatch(r"\d+\.\d\d?", number) for number in row[1:])
