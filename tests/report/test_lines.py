"""Figures of lines: names beside their ends, axes that fit, and one colour for a method."""

import itertools

import pytest
from hypothesis import given, strategies as st

from bntricks.paper import load_study, study_names
from bntricks.report.figures.lines import apart, cost, curves, over_memory, over_share, per_task
from bntricks.report.figures.looks import GREY, MOST_EMPHASISED, colour, looks
from bntricks.report.figures.panels import task_lines
from bntricks.report.files import offline
from bntricks.report.groups import group
from helpers.records import a_run, runs


@pytest.mark.law
@given(st.lists(st.floats(20, 80), min_size=1, max_size=12))
def test_names_keep_apart_keep_their_order_and_stay_inside(values):
    moved = apart(values, 4.0, (20.0, 80.0))
    ordered = [height for _, height in sorted(zip(values, moved, strict=True))]
    assert all(b - a >= 4.0 - 1e-9 for a, b in itertools.pairwise(sorted(moved)))
    assert ordered == pytest.approx(sorted(moved))
    assert all(20 - 1e-9 <= height <= 80 + 1e-9 for height in moved)


def test_what_is_far_apart_is_not_moved():
    assert apart([70.0, 30.0, 50.0], 4.0, (0.0, 100.0)) == [70.0, 30.0, 50.0]


def test_short_names_stand_at_the_ends_and_long_ones_in_a_legend():
    short = per_task(group([*runs("er", [50.0]), *runs("er-bnt", [60.0])]))
    assert [layer.get("name") for layer in short.spec["layer"]][-1] == "ends"
    assert short.ends > 0
    assert offline(short)["config"]["legend"] == {"disable": True}
    long = per_task(group(runs("m" * 60, [50.0])))
    assert "ends" not in str(long.spec["layer"])
    assert offline(long)["config"]["legend"]["columns"] == 1
    assert offline(long)["config"]["legend"]["labelLimit"] == 0


def test_the_axis_fits_what_is_drawn():
    spec = curves(group([a_run(r=[[38.0, None], [31.0, 33.0]])])).spec
    assert {str(layer["encoding"]["y"]["scale"]["domain"]) for layer in spec["layer"]} == {
        "[30, 40]"
    }


def test_acc_over_the_size_of_the_memory_is_a_line_for_each_method():
    trained = [run for size in (200, 500, 1000) for run in runs("er", [size / 20], memory=size)]
    figure = over_memory(group([*trained, *runs("sgd", [9.0], memory=None)]))
    drawn = [(row["label"], row["memory"], row["acc"]) for row in figure.rows]
    assert drawn == [("er", 200, 10.0), ("er", 500, 25.0), ("er", 1000, 50.0)]
    assert over_memory(group(runs("er", [1.0, 2.0]))) is None


def test_acc_over_the_share_of_phi_is_of_the_runs_that_were_probed_for_it():
    def probed(seed, *accs):
        by_share = [
            {"share": share, "old": acc - 10, "newest": acc + 10, "acc": acc}
            for share, acc in zip((0.0, 0.5, 1.0), accs, strict=False)
        ]
        plain = {"acc": 50.0, "oracle_acc": 50.0, "task_acc": 50.0, "oracle_gain": 0.0}
        return a_run("er", seed, phi={**plain, **({"by_share": by_share} if accs else {})})

    trained = [probed(0, 30.0, 50.0, 40.0), probed(1, 34.0, 54.0), probed(2), a_run("er-bnt")]
    figure = over_share(group(trained))
    drawn = [(r["label"], r["share"], r["acc"], r["old"], r["seeds"]) for r in figure.rows]
    assert drawn == [
        ("er", 0.0, 32.0, 22.0, 2),
        ("er", 0.5, 52.0, 42.0, 2),
        ("er", 1.0, 40.0, 30.0, 1),
    ]
    assert figure.spec["description"].startswith("ACC over the share of φ, Seq-CIFAR-10.")
    assert over_share(group([probed(2), a_run("er-bnt")])) is None


def test_each_task_over_time_leaves_out_what_was_tested_once():
    joint = a_run("joint", r=[[None, None], [85.0, 95.0]], memory=None)
    figure = task_lines(group([a_run(r=[[80.0, None], [40.0, 60.0]]), joint]))
    drawn = [(row["label"], row["task"], row["after"], row["acc"]) for row in figure.rows]
    assert drawn == [("er", 1, 1, 80.0), ("er", 1, 2, 40.0), ("er", 2, 2, 60.0)]
    assert task_lines(group([joint])) is None


def test_cost_is_drawn_only_where_methods_differ_in_it():
    assert cost(group([*runs("er", [50.0]), *runs("gem", [40.0])])) is None
    assert cost(group([*runs("er", [50.0]), a_run("er-bnt", forwards_per_step=3.0)])) is not None


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone = looks(group(runs("er-cur+buf", [50.0])))
    beside = looks(group([a_run(name) for name in ("er", "er-cur+buf", "mine", "gem")]))
    assert alone["er-cur+buf"].colour == beside["er-cur+buf"].colour == colour("er-cur+buf")
    assert beside["mine"].colour == colour("mine") == colour("mine-bnt")


def test_a_pair_shares_its_shape_and_differs_in_its_dash():
    own = looks(group([a_run(name) for name in ("er", "er-bnt", "der++", "der++-bnt")]))
    assert own["er"].shape == own["er-bnt"].shape != own["der++"].shape
    assert own["er"].dash != own["er-bnt"].dash


def test_grey_methods_differ_in_shape():
    baselines = ("joint", "sgd", "lwf", "gem", "a-gem", "fdr", "gss")
    pairs = [f"{name}{form}" for name in ("er", "der++", "icarl") for form in ("", "-bnt")]
    own = looks(group([a_run(name) for name in (*baselines, *pairs)]))
    assert {own[name].colour for name in baselines} == {GREY}
    assert len({own[name].shape for name in baselines}) == len(baselines)


def test_at_most_eight_are_emphasised_and_pairs_before_others():
    names = [f"m{index}" for index in range(12)]
    own = looks(group([a_run(name) for name in (*names, "er", "er-bnt")]))
    assert sum(look.emphasised for look in own.values()) == MOST_EMPHASISED
    assert own["er"].emphasised
    assert own["er-bnt"].emphasised
    assert {own[name].colour for name in names if not own[name].emphasised} == {GREY}


def test_of_very_many_lines_the_emphasised_ones_are_on_top_and_alone_have_bands():
    trained = [a_run(f"m{index}", seed) for index in range(20) for seed in (0, 1)]
    groups = group(trained)
    emphasised = {label for label, look in looks(groups).items() if look.emphasised}
    spec = curves(groups).spec
    assert set(spec["layer"][0]["transform"][-1]["filter"]["oneOf"]) == emphasised
    rows = spec["datasets"][spec["layer"][1]["data"]["name"]]
    drawn = [row["label"] in emphasised for row in rows]
    assert drawn == sorted(drawn)


def test_of_many_variants_each_method_keeps_one_with_its_colour():
    trained = [a_run(name, epochs=n) for name in ("er", "er-bnt", "gem-like") for n in (9, 5, 50)]
    own = looks(group([*trained, *(a_run("er", lr=lr) for lr in (0.1, 0.2, 0.3, 0.4))]))
    for method in ("er", "er-bnt", "gem-like"):
        shown = [
            label for label, look in own.items() if look.emphasised and label.startswith(method)
        ]
        assert shown, method


@pytest.mark.parametrize("name", study_names())
def test_no_two_coloured_methods_of_a_study_share_a_colour(name):
    colours = [colour(method) for method in load_study(name).methods]
    coloured = [each for each in colours if each != GREY]
    assert len(set(coloured)) == len(coloured)
