"""Verdicts on claims, from made-up runs whose differences are known."""

import math
import random

import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import ttest_ind_from_stats

from bntricks.errors import UserError
from bntricks.paper import SCALES, Side, Study, load_study
from bntricks.report.groups import group
from bntricks.report.protocol import groups_of
from bntricks.report.statistics import estimate, holm
from bntricks.report.tables.results import verdict_table
from bntricks.report.verdicts import paper_difference, paper_entry, verdicts
from bntricks.runs.metrics import METRICS
from bntricks.runs.record.maps import BiasedPhi
from helpers import records

MATRIX = [[90.0, None, None], [60.0, 80.0, None], [30.0, 85.0, 70.0]]
LITE = {"epochs": 40, "memory": 200}
SMOKE = {"epochs": 1, "memory": 20, "width": 4}
STREAM = "seq-cifar10"


def matrix(final, tasks=3):
    """Tasks just learned at 90, all of them at `final` in the end."""
    early = [[90.0 if j == i else 50.0 if j < i else None for j in range(tasks)] for i in range(2)]
    return [*early, [final] * tasks]


def a_run(method, seed, final=50.0, *, r=None, path=None, **parts):
    path = path or f"runs/{method}-{seed}"
    return records.a_run(
        method, seed, stream=STREAM, r=r or matrix(final), path=path, **{**LITE, **parts}
    )


def runs(method, finals, **knobs):
    return [a_run(method, seed, final, **knobs) for seed, final in enumerate(finals)]


def a_study(*statements, methods=("er", "er-bnt"), **parts):
    whole = {
        "name": "little",
        "title": "Little",
        "artefacts": ["none"],
        "methods": methods,
        "streams": [STREAM],
        "scale": {
            **{name: {"seeds": 2, "overrides": LITE} for name in SCALES},
            "smoke": {"seeds": 2, "overrides": SMOKE},
        },
        "claims": statements,
    }
    return Study.model_validate({**whole, **parts})


def claim(kind="greater", metric="acc", a="er-bnt", b="er", **parts):
    def side(name):
        method, _, variant = name.partition("/")
        return {"method": method, "variant": variant}

    text = f"{kind} {metric} {a} {b} {parts}".replace("{", "").replace("}", "")
    fields = {"text": text, "where": "w", "kind": kind, "metric": metric, "stream": STREAM}
    return fields | {"a": side(a)} | ({"b": side(b)} if b else {}) | parts


def judge(trained, statement=None, **parts):
    (row,) = verdicts(a_study(statement or claim(), **parts), "lite", group(trained))
    return row


BETTER, WORSE = [60.0, 62.0, 61.0, 63.0, 60.5, 61.5], [50.0, 51.0, 52.0, 50.0, 51.5, 50.5]


def test_a_planted_effect_holds_and_its_reverse_does_not():
    row = judge([*runs("er-bnt", BETTER), *runs("er", WORSE)])
    assert (row.verdict, row.seeds, row.rule) == ("holds", 6, "interval and test")
    assert row.ours == pytest.approx(10.5)
    assert row.low < 10.5 < row.high
    assert row.p == row.p_holm < 0.001
    assert judge([*runs("er-bnt", WORSE), *runs("er", BETTER)]).verdict == "does not hold"


@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_with_fewer_than_six_seeds_a_claim_is_at_most_suggested(seeds):
    few = [*runs("er-bnt", BETTER[:seeds]), *runs("er", WORSE[:seeds])]
    row = judge(few)
    assert row.p_holm < 0.05
    assert (row.verdict, row.rule) == ("suggested", f"interval; {seeds} seeds cannot confirm it")
    against = judge(few, claim(a="er", b="er-bnt"))
    assert against.verdict == "doubtful"


def test_what_does_not_survive_the_adjustment_is_suggested():
    barely = [50 + gain for gain in (0.1, 2.0, 1.0, 0.2, 1.8, 0.3)]
    trained = [*runs("er-bnt", barely), *runs("er", [50.0] * 6)]
    assert judge(trained).verdict == "holds"
    study = a_study(claim(), claim(metric="last_task"), claim(metric="learned"))
    row, *_ = verdicts(study, "lite", group(trained))
    assert row.p < 0.05 < row.p_holm
    assert (row.verdict, row.rule) == ("suggested", "interval; not after Holm's adjustment")


def test_a_claim_without_a_verdict_does_not_count_in_the_adjustment():
    trained = [*runs("er-bnt", BETTER), *runs("er", WORSE), *runs("der", [50.0, 51.0])]
    parts = {"methods": ("er", "er-bnt", "der")}
    first, second = verdicts(a_study(claim(), claim(a="der"), **parts), "lite", group(trained))
    assert first.p_holm == first.p
    assert (second.p, second.rule) == (None, "")


@pytest.mark.parametrize("side", [1, -1])
def test_noise_is_undecided_whichever_way_its_mean_falls(side):
    noise = [50 + side * difference for difference in (5.0, -1.0, 4.0, -2.0)]
    row = judge([*runs("er-bnt", noise), *runs("er", [50.0] * 4)])
    assert (row.verdict, row.ours) == ("undecided", 1.5 * side)
    assert row.low < 0 < row.high


def test_pairing_by_seed_finds_what_lies_below_the_spread_between_seeds():
    base = [30.0, 50.0, 70.0, 90.0]
    lifted = [value + gain for value, gain in zip(base, [1.0, 1.2, 0.9, 1.1], strict=True)]
    shuffled = random.Random(1).sample([*runs("er-bnt", lifted), *runs("er", base)], 8)
    assert judge(shuffled).verdict == "suggested"


@pytest.mark.parametrize(
    ("seeds", "verdict", "reason"),
    [
        (1, "not judged", "1 seed"),
        (2, "not judged", "2 seeds"),
        (3, "suggested", ""),
    ],
)
def test_fewer_than_three_seeds_are_never_a_verdict(seeds, verdict, reason):
    better, worse = [90.0, 91.0, 90.5][:seeds], [10.0, 11.0, 10.0][:seeds]
    row = judge([*runs("er-bnt", better), *runs("er", worse)])
    assert (row.verdict, row.reason, row.seeds) == (verdict, reason, seeds)
    assert row.ours == pytest.approx(80.0, abs=0.5)
    assert (row.low is None) == (seeds == 1)
    assert (row.p is None) == (seeds < 3)
    (cell,) = [c.text for c in verdict_table([row]).column(1)]
    assert cell == (f"not judged ({reason})" if reason else verdict)


def smoke_runs(**knobs):
    better, worse = [90.0, 91.0, 90.5, 91.0], [10.0, 11.0, 10.0, 9.0]
    return [*runs("er-bnt", better, **knobs), *runs("er", worse, **knobs)]


@pytest.mark.parametrize("scale", ["smoke", "lite", "paper"])
def test_runs_of_the_smoke_scale_are_not_judged_whatever_scale_is_named(scale):
    groups = group(smoke_runs(**SMOKE))
    (row,) = verdicts(a_study(claim()), scale, groups)
    assert (row.verdict, row.reason, row.seeds) == ("not judged", "smoke scale", 4)
    assert any("Not judged" in note for note in verdict_table([row]).notes)


def test_a_method_without_a_memory_can_be_of_the_smoke_scale_too():
    knobs = {**SMOKE, "memory": None}
    trained = [*runs("sgd", [1.0, 2.0, 1.5], **knobs), *runs("joint", [90.0, 91.0, 90.0], **knobs)]
    parts = {"methods": ("sgd", "joint")}
    assert judge(trained, claim(a="joint", b="sgd"), **parts).reason == "smoke scale"


def test_runs_that_differ_from_the_smoke_scale_are_not_taken_for_it():
    for knobs in ({"epochs": 40}, {"width": 8}):
        assert judge(smoke_runs(**{**SMOKE, **knobs})).reason == "changed protocol"
    # A study may say that its smallest scale is as good as another.
    same = {name: {"seeds": 2, "overrides": SMOKE} for name in SCALES}
    assert judge(smoke_runs(**SMOKE), scale=same).verdict == "suggested"


def test_without_records_of_a_side_a_claim_is_not_run():
    row = judge(runs("er", [10.0, 11.0]))
    assert (row.verdict, row.seeds, row.ours, row.p) == ("not run", 0, None, None)
    assert judge([]).verdict == "not run"


def test_sides_without_a_common_seed_are_not_judged():
    row = judge([a_run("er", 0), a_run("er-bnt", 1)])
    assert (row.verdict, row.reason, row.seeds) == ("not judged", "no common seed", 0)
    assert row.ours is None


def test_only_common_seeds_count():
    row = judge([*runs("er-bnt", [60.0, 61.0, 99.0]), *runs("er", [50.0, 52.0])])
    assert (row.seeds, row.ours) == (2, 9.5)


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [
        ([95.0, 96.0, 95.0], "suggested"),
        ([20.0, 21.0, 20.0], "doubtful"),
        ([89, 91, 90], "undecided"),
    ],
)
def test_a_sign_is_taken_against_zero(finals, verdict):
    row = judge(runs("er", finals), claim("sign", "bwt", a="er", b=None))
    assert row.verdict == verdict
    assert row.ours == pytest.approx(sum(finals) / len(finals) - 90)
    assert row.claim.b is None


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.1, -0.1, 0.2, 0.0, 0.1, -0.1], "holds"),
        ([3.1, 3.2, 3.0, 3.1, 3.1, 3.0], "does not hold"),
        ([0.1, -0.1, 0.2, 0.0], "suggested"),
        ([-3.1, -3.2, -3.0, -3.1], "doubtful"),
        ([2.0, -2.0, 3.0, -1.0], "undecided"),
        ([0.1], "not judged"),
    ],
)
def test_likeness_needs_the_whole_interval_inside_the_margin(gaps, verdict):
    trained = [*runs("er-bnt", [50 + gap for gap in gaps]), *runs("er", [50.0] * len(gaps))]
    row = judge(trained, claim("similar", margin=2.0))
    assert (row.verdict, row.claim.margin) == (verdict, 2.0)
    assert (row.p is not None and row.p < 0.05) == (verdict not in ("undecided", "not judged"))


def test_every_task_means_all_of_them_and_shows_the_weakest():
    lower = [matrix(50.0) for _ in range(4)]
    everywhere = [[*m[:2], [60.0 + s, 70.0 - s, 52.0 + s / 10]] for s, m in enumerate(lower)]
    nearly = [[*m[:2], [60.0 + s, 70.0 - s, 48.0 + s / 10]] for s, m in enumerate(lower)]

    def row(better):
        trained = [a_run("er-bnt", s, r=r) for s, r in enumerate(better)]
        return judge([*trained, *runs("er", [50.0] * 4)], claim(metric="every_task"))

    assert row(everywhere).verdict == "suggested"
    assert row(everywhere).ours == pytest.approx(2.15)
    assert row(nearly).verdict == "doubtful"
    assert row(nearly).ours == pytest.approx(-1.85)
    assert row(nearly).metric == row(everywhere).metric == "every_task:3"


def test_the_task_that_decides_is_shown_though_another_has_a_lower_bound():
    # Task 2 is surely worse; task 3 varies so much that its interval reaches further down.
    finals = [[60.0, 49.0 + s / 10, 52.0 + swing] for s, swing in enumerate((-25.0, 0.0, 25.0))]
    trained = [a_run("er-bnt", s, r=[*matrix(50.0)[:2], r]) for s, r in enumerate(finals)]
    row = judge([*trained, *runs("er", [50.0] * 3)], claim(metric="every_task"))
    assert (row.verdict, row.metric) == ("doubtful", "every_task:2")
    assert row.high < 0


accuracies = st.lists(st.floats(0, 100), min_size=3, max_size=3)


@pytest.mark.law
@settings(max_examples=100, deadline=None)
@given(
    better=st.lists(accuracies, min_size=1, max_size=7),
    statement=st.sampled_from(
        [claim(), claim(metric="every_task"), claim("similar", margin=2.5), claim(metric="bwt")]
    ),
    spread=st.sampled_from([0.001, 0.1, 1.0]),
)
def test_a_verdict_follows_from_the_row_it_is_printed_in(better, statement, spread):
    finals = [[50 + (final - 50) * spread for final in row] for row in better]
    trained = [a_run("er-bnt", s, r=[*matrix(50.0)[:2], r]) for s, r in enumerate(finals)]
    table = verdict_table([judge([*trained, *runs("er", [50.0] * len(finals))], statement)])
    cells = dict(zip(table.columns, (cell.text for cell in table.rows[0]), strict=True))
    if int(cells["Seeds"]) < 3:
        assert cells["Verdict"].startswith("not judged (")
        return
    low, high = map(float, cells["95% interval"].split(" to "))
    bounds = (-2.5, 2.5) if statement["kind"] == "similar" else (0.0, math.inf)
    confirmed = int(cells["Seeds"]) >= 6 and float(cells["p (Holm)"].lstrip("< ")) <= 0.05
    if bounds[0] < low and high < bounds[1]:
        expected = "holds" if confirmed else "suggested"
    elif high < bounds[0] or low > bounds[1]:
        expected = "does not hold" if confirmed else "doubtful"
    else:
        expected = "undecided" if (low, high) != (0, 0) else "no difference"
    assert cells["Verdict"] == expected
    assert cells["Decided by"].startswith("interval and test" if "hold" in expected else "interval")


def test_the_p_of_every_task_is_the_largest_of_them():
    finals = [[60.0, 60.0, 50.0 + noise] for noise in (1.0, -1.0, 1.0, 1.0)]
    trained = [a_run("er-bnt", s, r=[*matrix(50.0)[:2], r]) for s, r in enumerate(finals)]
    row = judge([*trained, *runs("er", [50.0] * 4)], claim(metric="every_task"))
    assert row.verdict == "undecided"
    assert row.p == pytest.approx(0.391, abs=1e-3)  # of t = 1 with three degrees of freedom


def test_a_task_on_which_a_claim_fails_is_one_of_several_that_could():
    finals = [[60.0, 60.0, 49.0 + s / 10] for s in range(6)]
    trained = [a_run("er-bnt", s, r=[*matrix(50.0)[:2], r]) for s, r in enumerate(finals)]
    row = judge([*trained, *runs("er", [50.0] * 6)], claim(metric="every_task"))
    assert row.verdict == "does not hold"
    assert row.p == pytest.approx(3 * estimate([f[2] - 50.0 for f in finals]).p)


def test_a_trend_is_the_slope_of_the_gain_along_the_variants():
    variants = [{"label": str(m), "overrides": {"memory": m}} for m in (100, 200, 300)]
    statement = claim("trend", along=["100", "200", "300"])
    trained = []
    for gain, memory in ((1.0, 100), (2.0, 200), (7.0, 300)):
        trained += runs("er", [50.0, 40.0, 45.0], memory=memory)
        trained += runs("er-bnt", [50.0 + gain, 40.1 + gain, 45.0 + gain], memory=memory)
    row = judge(trained, statement, variants=variants)
    assert row.ours == pytest.approx(3.0)
    assert row.verdict == "suggested"
    without = [run for run in trained if run.config.memory != 200]
    assert judge(without, statement, variants=variants).verdict == "not run"


CONTROL = [
    {},
    {"label": "lr 0.06", "methods": ["er"], "overrides": {"lr": 0.06}},
    {"label": "single pass", "overrides": {"epochs": 1}},
]


def test_runs_are_told_apart_by_the_knobs_that_variants_turn():
    study = a_study(variants=CONTROL)
    by_variant = {
        "": a_run("er", 0),
        "lr 0.06": a_run("er", 0, lr=0.06),
        "single pass": a_run("er", 0, epochs=1),
    }
    groups = group([*by_variant.values(), a_run("er-bnt", 0)])
    for variant, run in by_variant.items():
        side = Side(method="er", stream=STREAM, variant=variant)
        (own,) = groups_of(study, "lite", side, groups)
        assert own.records == (run,)


def test_variants_may_be_compared_with_each_other():
    trained = [*runs("er-bnt", [60.0, 61.0, 62.0]), *runs("er", [50.0, 51.5, 52.0], lr=0.06)]
    row = judge([*trained, *runs("er", [0.0] * 3)], claim(b="er/lr 0.06"), variants=CONTROL)
    assert (row.verdict, str(row.claim.a), str(row.claim.b)) == (
        *("suggested", "er-bnt", "er, lr 0.06"),
    )


def test_two_protocols_on_one_side_are_refused_and_both_runs_named():
    trained = [
        a_run("er", 0, path="runs/one"),
        a_run("er", 0, path="runs/two", epochs=30, batch=16),
        a_run("er-bnt", 0),
    ]
    with pytest.raises(UserError) as refusal:
        judge(trained)
    message = str(refusal.value)
    assert message.startswith("mixed protocols: er on seq-cifar10, seed 0 (runs/one) and er on ")
    assert "(runs/two) differ in batch (32 and 16), epochs (40 and 30); " in message


@pytest.mark.parametrize("seed", [0, 1])
def test_protocols_may_not_differ_between_seeds_either(seed):
    with pytest.raises(UserError, match=r"mixed protocols: .* differ in width \(64 and 8\)"):
        judge([a_run("er", 0), a_run("er", seed, width=8), a_run("er-bnt", 0)])


def test_protocols_may_not_differ_between_the_sides():
    with pytest.raises(UserError, match=r"er-bnt .*seed 0.* and er on .* differ in augment"):
        judge([a_run("er", 0, augment="none"), a_run("er-bnt", 0)])


def test_a_method_tried_with_two_hyper_parameters_is_two_sides():
    with pytest.raises(UserError, match="differ in hyper"):
        judge([a_run("er", 0), a_run("er", 1, hyper={"alpha": 0.1}), a_run("er-bnt", 0)])
    different = [*runs("er", [50.0, 50.0]), *runs("er-bnt", [60.0, 61.0], hyper={"alpha": 1.0})]
    assert judge(different).seeds == 2


def test_different_images_are_refused():
    with pytest.raises(UserError, match="differ in the images they learned"):
        judge([a_run("er", 0), a_run("er-bnt", 0, fingerprint="other images")])


def test_knobs_that_one_of_two_methods_does_not_have_may_differ():
    trained = [
        *runs("sgd", [10.0, 11.0], memory=None),
        *runs("er-bnt", [60.0, 61.5], memory_batch=16, balance="ratio"),
    ]
    row = judge(trained, claim(b="sgd"), methods=("er-bnt", "sgd"))
    assert row.seeds == 2
    with pytest.raises(UserError, match="differ in memory_batch"):
        judge([*runs("er", [1.0, 2.0]), *runs("er-bnt", [60.0, 61.5], memory_batch=16)])


def test_the_same_run_given_twice_counts_once():
    trained = [*runs("er", [50.0, 51.0]), *runs("er-bnt", [60.0, 62.0])]
    assert judge(trained * 2) == judge(trained)
    with pytest.raises(UserError, match="is there twice with different results"):
        judge([*trained, a_run("er", 1, 7.0)])


def test_holm_counts_the_claims_that_were_tested():
    gains, losses = [60.0 + s for s in range(4)], [50.0 - s for s in range(4)]
    study = a_study(
        claim(), claim(metric="last_task"), claim("similar", margin=1.0), claim(a="der"),
        methods=("er", "er-bnt", "der"),
    )  # fmt: skip
    rows = verdicts(study, "lite", group([*runs("er-bnt", gains), *runs("er", losses)]))
    ps = [row.p for row in rows]
    assert ps[3] is None
    assert [row.p_holm for row in rows] == holm(ps)
    assert rows[0].p_holm > rows[0].p


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("acc", (30 + 85 + 70) / 3),
        ("bwt", (-60 + 5) / 2),
        ("forgetting", 30.0),
        ("last_task", 70.0),
        ("acc_after:2", 70.0),
        ("acc_after:4", None),
        ("accuracy:3:1", 30.0),
        ("accuracy:1:3", None),
        ("accuracy:4:1", None),
        ("every_task:2", 85.0),
        ("previous", (30 + 85) / 2),
        ("learned", (90 + 80 + 70) / 3),
        ("biased_phi.acc_lost", None),
    ],
)
def test_metrics_are_read_off_the_record(metric, expected):
    number = a_run("er", 0, r=MATRIX).value(metric)
    assert number == (None if expected is None else pytest.approx(expected))


def test_a_metric_that_records_get_later_can_be_claimed(monkeypatch):
    monkeypatch.setitem(METRICS, "lowest", lambda r: min(r[-1]))
    assert a_run("er", 0, r=MATRIX).value("lowest") == 30.0


def test_a_list_is_not_a_number_to_claim():
    with pytest.raises(UserError, match="acc_after_each_task is a list"):
        a_run("er", 0, r=MATRIX).value("acc_after_each_task")


def test_what_joint_training_never_measured_is_none():
    joint = a_run("joint", 0, r=[[None, None], [50.0, 70.0]])
    assert joint.value("learned") is None
    assert joint.value("bwt") is None
    assert joint.value("accuracy:1:1") is None


def test_a_number_beside_the_matrix_is_judged_once_it_is_there():
    study = load_study("statistics")
    knobs = {"memory": 200, "image_size": 16, "width": 16, "blocks": 1}

    def verdicts_on(measured):
        trained = [a_run("er-bnt", s, biased_phi=phi, **knobs) for s, phi in enumerate(measured)]
        return [row.verdict for row in verdicts(study, "lite", group(trained))]

    assert set(verdicts_on([None] * 3)) == {"not run"}
    lost = [BiasedPhi.of((50.0,), (30.0 - s,), 70.0, 40.0 - s).model_dump() for s in range(3)]
    assert verdicts_on(lost) == ["suggested", "doubtful"]


def test_the_papers_own_difference_stands_beside_ours():
    study = load_study("pilot")
    rows = {row.claim.text: row for row in verdicts(study, "lite", [])}
    row = rows["ER-Cur+Buf has a higher BWT than ER on Seq-CIFAR-10"]
    assert row.paper.mean == pytest.approx(43.82 - 32.06)
    assert {row.verdict for row in rows.values()} == {"not run"}


def test_runs_without_a_memory_stand_for_themselves_at_every_size():
    sizes = [{"label": f"{size}", "overrides": {"memory": size}} for size in (200, 500)]
    statement = claim(a="er/500", b="sgd/500")
    trained = runs("er", [50.0, 51.0, 52.0], memory=500) + runs(
        "sgd", [10.0, 11.0, 12.5], memory=None
    )
    row = judge(trained, statement, methods=("er", "sgd"), variants=sizes)
    assert (row.verdict, row.seeds) == ("suggested", 3)


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([-1.0, -1.1, -0.9, -1.0, -1.1, -0.9], "holds"),
        ([1.5, 1.6, 1.4, 1.5, 1.6, 1.4], "holds"),
        ([3.1, 3.2, 3.0, 3.1, 3.1, 3.0], "does not hold"),
        ([1.0, 3.0, 2.5, 1.5, 2.0, 2.2], "undecided"),
    ],
)
def test_a_gain_below_a_margin_needs_the_upper_end_below_it(gaps, verdict):
    trained = [*runs("er-bnt", [50 + gap for gap in gaps]), *runs("er", [50.0] * len(gaps))]
    row = judge(trained, claim("less", margin=2.0))
    assert row.verdict == verdict
    assert (row.p < 0.05) == (verdict != "undecided")


def test_less_than_nothing_is_a_number_below_zero():
    row = judge(runs("er", [20.0, 21.0, 20.0]), claim("less", "bwt", a="er", b=None))
    assert (row.verdict, row.ours) == ("suggested", pytest.approx(-69.67, abs=0.01))


def test_a_difference_of_nothing_is_no_difference():
    row = judge([*runs("er-bnt", WORSE), *runs("er", WORSE)])
    assert (row.verdict, row.ours, row.rule) == ("no difference", 0.0, "interval: nothing but 0")
    assert judge(
        [*runs("er-bnt", WORSE), *runs("er", WORSE)], claim("similar", margin=1.0)
    ).verdict == ("holds")


WRITTEN = "2026-01-02T00:00:00Z"


def test_only_runs_that_finished_after_a_claim_was_written_down_test_it():
    def dated(method, finals):
        days = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
        return [
            a_run(method, seed, final, finished=days[seed > 0]) for seed, final in enumerate(finals)
        ]

    trained = [*dated("er-bnt", [99.0, 61.0, 60.0]), *dated("er", [10.0, 50.0, 51.0])]
    row = judge(trained, claim(after=WRITTEN))
    assert (row.seeds, row.ours) == (2, 10.0)
    undated = [*runs("er-bnt", BETTER), *runs("er", WORSE)]
    assert judge(undated, claim(after=WRITTEN)).verdict == "not run"


def test_sides_are_taken_from_trainings_that_were_computed_alike():
    machines = [{"versions": {"platform": name}} for name in ("old", "new")]
    first, again = (
        a_run("er", 0, final, **m) for final, m in zip((40.0, 50.0), machines, strict=True)
    )
    er = first.model_copy(update={"trained_again": (again,)})
    other = a_run("er-bnt", 0, 60.0, **machines[1])
    row = judge([er, other])
    assert (row.ours, row.mixed_numerics) == (10.0, False)
    old = judge([er, a_run("er-bnt", 0, 60.0, **machines[0])])
    assert (old.ours, old.mixed_numerics) == (20.0, False)
    neither = judge([er, a_run("er-bnt", 0, 60.0)])
    assert (neither.ours, neither.mixed_numerics) == (20.0, True)
    (note,) = [note for note in verdict_table([neither]).notes if note.startswith("†")]
    assert "different machines" in note


def test_the_papers_interval_is_welchs():
    study = load_study("pilot")
    (row, *_) = [
        c for c in study.claims if c.text.startswith("ER-Cur+Buf has a higher ACC than ER ")
    ]
    er, other = (paper_entry(study, side).acc for side in (row.b, row.a))
    paper = paper_difference(study, row)
    low, high = paper.low, paper.high
    assert (low + high) / 2 == pytest.approx(other.mean - er.mean)

    def p(difference):
        """Of the means, moved so that they differ by this."""
        stats = (er.mean + difference, other.sd, 10, er.mean, er.sd, 10)
        return ttest_ind_from_stats(*stats, equal_var=False).pvalue

    assert p((high - low) / 2) == pytest.approx(0.05)
