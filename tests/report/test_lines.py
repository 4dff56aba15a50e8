"""Figures of lines: names beside their ends, axes that fit, and one colour for a method."""

import itertools

import pytest
from hypothesis import given, strategies as st

from bntricks.paper import load_study, study_names
from bntricks.report.build import build
from bntricks.report.figures.lines import apart, cost, curves, over_memory, over_share, per_task
from bntricks.report.figures.looks import COLOURS, HUES, PAPER, SPARE, colour
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
    assert drawn == [("ER", 200, 10.0), ("ER", 500, 25.0), ("ER", 1000, 50.0)]
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
        ("ER", 0.0, 32.0, 22.0, 2),
        ("ER", 0.5, 52.0, 42.0, 2),
        ("ER", 1.0, 40.0, 30.0, 1),
    ]
    assert figure.spec["description"].startswith("ACC over the share of φ, Seq-CIFAR-10.")
    assert over_share(group([probed(2), a_run("er-bnt")])) is None


def test_each_task_over_time_leaves_out_what_was_tested_once():
    joint = a_run("joint", r=[[None, None], [85.0, 95.0]], memory=None)
    figure = task_lines(group([a_run(r=[[80.0, None], [40.0, 60.0]]), joint]))
    drawn = [(row["label"], row["task"], row["after"], row["acc"]) for row in figure.rows]
    assert drawn == [("ER", 1, 1, 80.0), ("ER", 1, 2, 40.0), ("ER", 2, 2, 60.0)]
    assert task_lines(group([joint])) is None


def test_cost_is_drawn_only_where_methods_differ_in_it():
    assert cost(group([*runs("er", [50.0]), *runs("gem", [40.0])])) is None
    assert cost(group([*runs("er", [50.0]), a_run("er-bnt", forwards_per_step=3.0)])) is not None


def looks(*records):
    return {each.method: each.look for each in group(records)}


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone = looks(*runs("er-cur+buf", [50.0]))
    beside = looks(*(a_run(f"m{index}") for index in range(20)), a_run("er-cur+buf"), a_run("gem"))
    assert alone["er-cur+buf"].colour == beside["er-cur+buf"].colour == colour("er-cur+buf")
    assert {beside[f"m{index}"].colour for index in range(20)} <= {*SPARE}
    assert colour("mine") == colour("mine-bnt")


def test_a_method_has_the_same_look_in_every_figure_of_a_report():
    trained = [a_run(method, epochs=n) for method in ("er", "er-bnt", "mine") for n in range(1, 8)]
    (part,) = build(trained).streams
    drawn = {}
    for figure in part.figures:
        for name, look in scales(figure.spec).items():
            drawn.setdefault(name, set()).add(look)
    assert len(drawn) == 12
    assert all(len(each) == 1 for each in drawn.values())


def scales(spec):
    """Colours by name in the scales of a spec."""
    found = {}
    for layer in spec.get("layer", ()):
        scale = layer["encoding"].get("color", {}).get("scale")
        found |= dict(zip(scale["domain"], scale["range"], strict=True)) if scale else {}
    return found


def test_no_two_methods_share_a_colour():
    named = [*COLOURS.values(), *SPARE, *(hue for pair in HUES.values() for hue in pair)]
    assert len({*named}) == len(named)


@pytest.mark.parametrize("ground", [PAPER, "#14181d"])
def test_colours_are_seen_on_light_and_dark_pages(ground):
    for own in {*COLOURS.values(), *SPARE, *(hue for pair in HUES.values() for hue in pair)}:
        assert contrast(own, ground) > 2.4, own


def contrast(one, other):
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_pair_shares_its_shape_and_differs_in_its_dash():
    own = looks(*(a_run(name) for name in ("er", "er-bnt", "der++", "der++-bnt")))
    assert own["er"].shape == own["er-bnt"].shape != own["der++"].shape
    assert own["er"].dash != own["er-bnt"].dash


def test_the_first_eight_families_differ_in_shape():
    names = ("joint", "sgd", "lwf", "gem", "a-gem", "fdr", "gss", "er")
    own = looks(*(a_run(name) for name in names))
    assert len({look.shape for look in own.values()}) == len(names)


def test_variants_of_a_method_that_is_alone_differ_in_colour():
    groups = group(a_run(lr=lr) for lr in (0.03, 0.1, 0.2))
    assert len({each.look.colour for each in groups}) == 3


def test_of_many_rows_a_dozen_is_drawn_of_one_protocol_and_pairs_first():
    names = ("er", "er-bnt", *(f"m{index}" for index in range(14)))
    trained = [*(a_run(name, epochs=2) for name in names), *(a_run(epochs=n) for n in range(3, 30))]
    (part,) = build(trained).streams
    drawn = [each for each in part.groups if each.drawn]
    assert len(drawn) == 12
    assert {each.knobs["epochs"] for each in drawn} == {2}
    assert {"er", "er-bnt"} <= {each.method for each in drawn}
    curve = part.figures[0]
    assert len({row["label"] for row in curve.rows}) == len(part.groups) == 43
    named = set(scales(curve.spec))
    assert len(named) == 12
    assert {"ER", "ER-BNT"} <= named < {"ER", "ER-BNT", *(f"m{index}" for index in range(14))}
    assert curve.title.endswith("Seq-CIFAR-10 (epochs 2)")


@pytest.mark.parametrize("name", study_names())
def test_no_two_methods_of_a_study_share_a_colour(name):
    colours = [colour(method) for method in load_study(name).methods]
    assert len(set(colours)) == len(colours)
