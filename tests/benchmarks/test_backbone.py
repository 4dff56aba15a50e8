"""What `benchmarks/backbone.py` measures, with a trunk and images small enough for a test."""

import pytest

import backbone
from helpers.backbones import tiny  # noqa: F401 (registers itself)
from helpers.command_line import cifar10


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(backbone, "BACKBONE", "tiny")
    monkeypatch.setattr(backbone, "DRAWS", 1)
    cifar10(tmp_path, per_class=12)
    return tmp_path


@pytest.mark.slow
def test_every_goal_is_measured(small):
    parts = ("lessons", "cost", "unknown")
    rows = backbone.measured(small, None, small / "scratch", parts, [96])
    means = {row["what"]: row["mean"] for row in rows}
    assert set(means) >= set(backbone.GOALS)
    assert all(0 <= value <= 100 for what, value in means.items() if what.startswith("lda, "))
    assert {row["goal"] for row in rows} == {"", *backbone.GOALS.values()}
