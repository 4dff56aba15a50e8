"""docs/results.md is what its script writes, and what that writes is what the records say."""

import pytest

from bntricks.paper import load_study
from bntricks.report.records import load_records
from helpers import records
from helpers.pages import DOCS
from readme import part
from results_page.evidence import STUDIES, findings, gather
from results_page.headlines import headlines
from results_page.layers import layers_figure, layers_in_short
from results_page.lengths import lengths
from results_page.missing import WANTED, missing
from results_page.other_phi import other_phi, share_figure
from results_page.quoted import quoted
from results_page.summary import KNOWN, summary
from write_results import figure_files, page

STREAM = "seq-cifar10"
GAIN = "ER-BNT has a higher ACC than ER on Seq-CIFAR-10"


def matrix(final):
    """Five tasks, just learned at 90, all of them at `final` in the end."""
    early = [[90.0 if j == i else 50.0 if j < i else None for j in range(5)] for i in range(4)]
    return [*early, [final] * 5]


def runs(method, finals, scale="medium", **knobs):
    """A run for each final accuracy, with seeds from 0, at the protocol of a scale."""
    values = {**load_study("pilot").values(scale, STREAM), **knobs}
    lite = {"cut_down": True, "fingerprint": "c" * 16} if scale == "lite" else {}
    return [
        records.a_run(method, seed, r=matrix(final), **{**lite, **values})
        for seed, final in enumerate(finals)
    ]


def gain(amount, scale="medium", seeds=3, **knobs):
    """ER, and ER-BNT with so many points more."""
    er = [50.0 + seed for seed in range(seeds)]
    better = [final + amount + 0.1 * seed for seed, final in enumerate(er)]
    return [*runs("er", er, scale), *runs("er-bnt", better, scale, **knobs)]


def finding(text, trained):
    (own,) = {f.claim.text: f for f in findings(gather(trained)) if f.claim.text == text}.values()
    return own


def test_the_page_is_what_its_script_writes():
    trained = load_records([DOCS / "results"])
    text, figures = page(trained)
    written = (DOCS / "results.md").read_text(encoding="utf-8")
    assert text == written, "run `python benchmarks/write_results.py`"
    assert quoted(trained) == part("results"), "run `python benchmarks/write_results.py`"
    assert {path.stem for path in figure_files(DOCS)} == figures.keys()


def test_the_largest_scale_with_a_verdict_decides():
    trained = [*gain(5.0, "lite"), *gain(-5.0, "medium")]
    own = finding(GAIN, trained)
    assert own.verdict == "doubtful"
    assert [(scale, j.verdict) for scale, j in own.judgements] == [
        ("medium", "doubtful"),
        ("lite", "suggested"),
    ]
    scales = [each.scale for each in gather(trained) if each.study.name == "ablation"]
    assert scales == ["medium", "lite"]


def test_a_smaller_scale_with_more_seeds_confirms_but_does_not_overrule():
    confirmed = gain(5.0, "lite", seeds=6)
    assert finding(GAIN, [*confirmed, *gain(5.0, "medium")]).decisive[0] == "lite"
    assert finding(GAIN, [*confirmed, *gain(5.0, "medium")]).verdict == "holds"
    assert finding(GAIN, [*confirmed, *gain(-5.0, "medium")]).verdict == "doubtful"


def test_two_seeds_are_shown_but_do_not_decide():
    trained = [*gain(5.0, "lite"), *gain(-5.0, "medium", seeds=2)]
    assert finding(GAIN, trained).verdict == "suggested"
    assert [e.scale for e in gather(trained) if e.study.name == "ablation"] == ["lite", "medium"]
    first, *_ = headlines(gather(trained), findings(gather(trained)))
    assert first.startswith(
        "**ER-BNT over ER: seems to reproduce.** At `lite` scale, over 3 seeds, "
    )
    assert (
        "At `medium` scale so far, with 2 seeds, too few for a verdict: 4.95 points less" in first
    )
    assert finding(GAIN, gain(5.0, seeds=2)).verdict == "too few seeds"
    assert finding(GAIN, []).verdict == "not run"


def test_medium_scale_is_of_the_whole_data():
    cut_down = {"cut_down": True, "fingerprint": "c" * 16}
    trained = [*runs("er", [50.0] * 3, **cut_down), *runs("er-bnt", [60.0] * 3, **cut_down)]
    assert gather(trained) == []


@pytest.mark.parametrize(
    ("rate", "answer"),
    [
        ([51.0, 52.0, 53.0], "Probably not."),
        ([70.0, 71.0, 72.5], "Probably."),
        ([40.0, 60.0, 80.0], "Undecided."),
        ([51.0, 52.0], "Too few seeds to say."),
        ([], "Not run yet."),
    ],
)
def test_the_summary_answers_whether_it_is_the_doubled_gradient(rate, answer):
    evidence = gather([*gain(10.0), *runs("er", rate, lr=0.06)])
    text = headlines(evidence, findings(evidence))[3]
    assert f"**Is the gain of ER-BNT its doubled gradient? {answer}**" in text
    assert ("Over ER, the doubled rate alone gains" in text) == bool(rate)


def test_the_share_of_the_doubled_gradient_is_over_the_seeds_that_all_have():
    evidence = gather([*gain(10.0), *runs("er", [51.5, 52.5], lr=0.06)])
    text = headlines(evidence, findings(evidence))[3]
    assert "alone gains +1.50 points of ACC, where ER-BNT gains +10.05, and " in text


def test_the_summary_says_what_a_balanced_phi_gains_for_either_way_to_train():
    trained = [
        *gain(10.0),
        *runs("er-cur+buf", [40.0, 41.0, 42.5]),
        *runs("er-recalibrate", [45.0, 46.0, 47.5]),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[4]
    assert "separate forwards, it seems to help: ER-BNT trains as ER-Cur+Buf does" in text
    assert "differs from it in φ alone. ACC +19.93 (19.42 to 20.45; paper +5.25), BWT" in text
    assert "joint forwards, it seems to harm: that is ER with φ set to" in text
    assert "against ER. ACC -4.83 (-5.55 to -4.12), BWT" in text
    assert "joint forwards, that was not run yet: " in headlines([], findings([]))[4]


def test_what_another_phi_would_reach_is_the_mean_of_the_probed_runs():
    probed = [
        records.a_run(
            "er",
            seed,
            r=matrix(acc),
            phi={"acc": acc, "oracle_acc": acc + 5, "task_acc": 80.0, "oracle_gain": 5.0}
            | ({"memory_acc": 36.0} if seed else {}),
            **load_study("pilot").values("medium", STREAM),
        )
        for seed, acc in enumerate([40.0, 42.0])
    ]
    single_pass = [
        run.model_copy(update={"phi": probed[0].phi}) for run in runs("er", [9], epochs=1)
    ]
    assert other_phi(single_pass) == other_phi(gain(1.0)) == []
    _, table, _ = other_phi([*probed, *single_pass, *runs("er-bnt", [60.0, 61.0])])
    (row,) = [line for line in table.splitlines() if line.startswith("| er")]
    assert row == "| er | 41.0 ± 1.4 | 36.0 | 46.0 ± 1.4 | 80.0 ± 0.0 | 2 |"


def test_acc_over_the_share_of_phi_is_drawn_and_its_best_and_worst_are_said():
    by_share = [
        {"share": share, "old": acc, "newest": acc, "acc": acc}
        for share, acc in ((0.0, 40.0), (0.6, 45.0), (1.0, 42.0))
    ]
    phi = {"acc": 44.0, "oracle_acc": 44.0, "task_acc": 44.0, "oracle_gain": 0.0}
    values = load_study("pilot").values("medium", STREAM)
    run = records.a_run("er", r=matrix(44.0), phi={**phi, "by_share": by_share}, **values)
    text = "\n".join(other_phi([run]))
    assert "er is best at a share of 60%, with 45.0, and worst at 0%, with 40.0.\n" in text
    assert "](figures/other-phi-seq-cifar10.svg)" in text
    assert share_figure([run]).rows[1]["acc"] == 45.0
    assert share_figure([]) is share_figure(gain(1.0)) is None


def test_every_claim_with_runs_stands_in_the_list_of_its_verdict(monkeypatch):
    monkeypatch.setattr("results_page.summary.KNOWN", {})
    trained = [
        *gain(10.0),
        *runs("er-cur+buf", [40.0, 41.0, 42.1]),
        *runs("er-balance-batch", [45.0, 55.0, 53.0]),
    ]
    evidence = gather(trained)
    text = "\n".join(summary(evidence, findings(evidence)))
    parts = text.split("\n**")
    (reproduces,) = [part for part in parts if part.startswith("Seems to reproduce, but")]
    (not_so,) = [part for part in parts if part.startswith("Seems not to reproduce, but")]
    (open_,) = [part for part in parts if part.startswith("Open, because the interval")]
    assert (
        "- ER-BNT has a higher ACC and BWT than ER. ACC +10.10 (9.85 to 10.35; paper +10.46)"
        in (reproduces)
    )
    assert "- ER-Cur+Buf has a higher ACC and BWT than ER. ACC -9.97" in not_so
    assert not_so.count(" in the end; the newest task: ") == not_so.count("\n- ")
    assert "- ER-Balance-Batch has a lower ACC and BWT than ER. ACC +0.00" in open_


def test_what_a_study_beyond_the_paper_leaves_undecided_is_only_counted():
    trained = [
        *runs("er", [40.0, 41.0, 42.0], epochs=1),
        *runs("er-ace", [50.0, 51.0, 52.5], epochs=1),
        *runs("er-las", [45.0, 51.0, 56.0], epochs=1),
    ]
    lines = summary(gather(trained), findings(gather(trained)))
    start = lines.index("**Is it φ or the head?** (4 claims)")
    decided, left = lines[start + 2 : lines.index("", start + 2)]
    assert decided.startswith("- ER-ACE has a higher ACC and BWT than ER in a single pass over ")
    assert left == "- 2 claims are undecided: [all figures](#is-it-φ-or-the-head)."
    text, _ = page(trained)
    assert "\n## Is it φ or the head?\n" in text


def test_what_is_known_is_said_of_claims_that_exist(monkeypatch):
    texts = {claim.text for name in STUDIES for claim in load_study(name).claims}
    assert KNOWN.keys() <= texts
    monkeypatch.setitem(KNOWN, GAIN, "Its classifier was frozen.")
    evidence = gather(gain(-5.0))
    text = "\n".join(summary(evidence, findings(evidence)))
    assert "Its classifier was frozen." in text


def test_a_run_is_missing_until_its_record_is_there():
    pilot = WANTED[0].configs()
    made = [
        records.a_run(r=matrix(50.0), **config.model_dump(exclude={"hyper"})) for config in pilot
    ]
    assert "**The pilot experiments**" not in "\n".join(missing(made))
    text = "\n".join(missing([r for r in made if (r.method, r.seed) != ("er-cur+buf", 2)]))
    assert "**The pilot experiments**: 1 of 16 runs missing: er-cur+buf (seed 2)." in text


def test_a_control_is_not_taken_for_the_plain_run():
    text = "\n".join(missing(runs("er", [50.0] * 3)))
    assert "er, lr 0.06 (seeds 0, 1, 2)" in text
    assert "er (seeds 1, 2)" not in text


def test_effects_by_length_are_of_one_scale_and_in_order():
    def steps(count):
        return {"steps": 5 * count, "epochs": count // 313}

    trained = []
    for count in (15_650, 6_260):
        for method, final in (("er", 50.0), ("er-cur+buf", 48.0), ("er-bnt", 50.0 + count / 1000)):
            trained += runs(method, [final], **steps(count))
    _, table, _ = lengths([*trained, *runs("er", [99.0], lr=0.06, **steps(6_260))])
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith(("| 6", "| 15"))]
    assert [row[0] for row in rows] == ["| 6260", "| 15650"]
    assert [(row[3], row[11]) for row in rows] == [("50.0", "6.3"), ("50.0", "15.7")]


def test_the_summary_says_which_layers_bn_tricks_is_ahead_of():
    trained = [
        *gain(10.0, "lite"),
        *runs("er", [40.0, 41.0, 42.5], "lite", norm="gn"),
        *runs("er", [70.0, 71.0, 72.5], "lite", norm="cn"),
        *runs("er", [55.0, 61.0, 68.0], "lite", norm="brn"),
        *runs("er-bnt", [90.0, 91.0, 92.5], "lite", norm="brn"),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[5]
    question, outcomes, rest = text.splitlines()
    assert question.startswith("**Against which other normalisations does BN Tricks win?** ")
    assert outcomes == (
        "  - ER-BNT over many epochs. ACC: seems ahead of GN (+19.9); undecided against BRN "
        "(-0.2); seems behind CN (-10.1). BWT: seems ahead of GN (+19.9); undecided against BRN "
        "(-0.2); seems behind CN (-10.1). 3 seeds."
    )
    assert rest.endswith("more comparisons have no verdict yet.")
    assert headlines([], findings([]))[5].endswith("** No verdict yet.")


def test_only_a_confirmed_difference_puts_one_ahead():
    better = [60.0, 61.0, 62.5, 60.5, 61.5, 60.0]
    worse = [value - 20 - 0.1 * seed for seed, value in enumerate(better)]
    for seeds, words in ((5, "seems ahead of GN"), (6, "ahead of GN")):
        trained = [
            *runs("er-bnt", better[:seeds], "lite"),
            *runs("er", worse[:seeds], "lite", norm="gn"),
        ]
        assert f"ACC: {words} (" in headlines(gather(trained), findings(gather(trained)))[5]


def test_a_better_loss_stands_beside_the_layers():
    trained = [
        *runs("er-bnt", [50.0, 51.0, 52.0], "lite"),
        *runs("er-ace", [60.0, 61.0, 62.5], "lite"),
    ]
    start = "| ER-BNT over many epochs | ER-ACE | **-10.17** |"
    assert any(line.startswith(start) for line in page(trained)[0].splitlines())


def test_what_both_sides_of_a_comparison_share_is_said_once():
    ten = {"epochs": 1, "batch": 10, "memory_batch": 10}
    trained = [
        *runs("der++-bnt", [50.0, 51.0, 52.0], **ten),
        *runs("der++-joint", [40.0, 41.0, 42.5], **ten),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[5]
    assert "single pass, batches of 10. ACC: seems ahead of BN in a joint forward (+9.8)." in text
    (row,) = [line for line in page(trained)[0].splitlines() if "DER++-Joint with BN |" in line]
    assert row.endswith("| **+9.83** | 9.12 to 10.55 | **+9.83** | 9.12 to 10.55 | 3 | medium |")
    drawn = layers_figure(findings(gather(trained))).rows
    assert [(row["rival"], row["metric"], row["shown"]) for row in drawn] == [
        ("DER++-Joint with BN", metric, "suggested") for metric in ("ACC", "BWT")
    ]
    assert layers_figure(findings([])) is None


def test_readme_names_a_layer_by_the_learning_rate_that_bn_tricks_fares_worse_against():
    trained = [
        *gain(10.0, "lite"),
        *runs("er", [40.0, 41.0, 42.5], "lite", norm="gn"),
        *runs("er", [70.0, 71.0, 72.5], "lite", norm="gn", lr=0.1),
        *runs("er", [40.0, 41.0, 42.5], "lite", norm="cn"),
    ]
    text = layers_in_short(findings(gather(trained)))
    assert text == "ER-BNT over many epochs: seems ahead of CN; seems behind GN."


def test_a_difference_that_nobody_can_explain_is_taken_apart_by_tasks():
    def learned(method, just, kept, newest):
        end = [kept] * 4 + [newest]
        early = [[just if j <= i else None for j in range(5)] for i in range(4)]
        values = {**load_study("pilot").values("medium", STREAM), "epochs": 1}
        rows = [[*early, [x + seed for x in end]] for seed in range(3)]
        return [records.a_run(method, seed, r=r, **values) for seed, r in enumerate(rows)]

    trained = [*learned("er-ace", 80.0, 40.0, 70.0), *learned("er-ace-bnt", 85.0, 39.0, 75.0)]
    text = "\n".join(summary(gather(trained), findings(gather(trained))))
    (line,) = [x for x in text.splitlines() if "ER-ACE-BNT has a higher BWT than ER-ACE" in x]
    assert line.endswith(
        "(Old tasks: +5.0 when they were learned, -1.0 in the end; the newest task: +5.0.)"
    )


def test_a_single_pass_says_nothing_about_many_epochs():
    trained = [
        *runs("der++", [40.0, 41.0, 42.5], epochs=1),
        *runs("der++-bnt", [50.0, 51.0, 52.0], epochs=1),
        *runs("er-ace", [40.0, 41.0, 42.5], epochs=1),
        *runs("er-ace-bnt", [50.0, 51.0, 52.0], epochs=1),
    ]
    judged = {
        (f.study.name, f.claim.text)
        for f in findings(gather(trained))
        if f.claim.metric == "acc"
        if f.decisive
    }
    helps = "has a higher ACC than ER-ACE on Seq-CIFAR-10"
    assert judged == {
        (
            "norms-online",
            "BN Tricks helps DER++ in a single pass: DER++-BNT has a higher ACC than "
            "DER++ on Seq-CIFAR-10",
        ),
        ("norms-online", f"BN Tricks helps ER-ACE in a single pass: ER-ACE-BNT {helps}"),
        ("bias", f"In a single pass as well, ER-ACE-BNT {helps}"),
    }
    assert (
        "DER++-BNT over DER++: not run yet"
        in headlines(gather(trained), findings(gather(trained)))[1]
    )


def test_the_summary_says_what_a_corrected_head_gains_and_leaves():
    trained = [
        *gain(10.0, "lite"),
        *runs("er", [54.0, 55.0, 56.5], "lite", correct="wa"),
        *runs("er-bnt", [61.0, 62.0, 63.5], "lite", correct="wa"),
        *runs("er-cur+buf", [58.0, 59.0, 60.5], "lite", correct="bic"),
        *runs("er-recalibrate", [40.0, 41.0, 42.5], "lite"),
        *runs("er-recalibrate", [45.0, 46.0, 47.5], "lite", correct="wa"),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[6]
    assert (
        "  - ER with a corrected head against ER: Seems ahead with WA +4.17 (3.45 to 4.88). 3 se"
        in text
    )
    assert "  - ER-BNT against ER with such a head: Seems ahead of WA +5.93" in text
    assert "against such a head, with ER-Cur+Buf's φ: Seems ahead of BiC +1.93" in text
    assert text.endswith(
        "Both seem to repair the same with WA +3.10 (2.85 to 3.35). 3 seeds, `lite`."
    )
    assert headlines([], findings([]))[6].endswith("** No verdict yet.")


def test_what_harms_er_is_not_said_to_repair_the_same_as_bn_tricks():
    trained = [
        *gain(10.0, "lite"),
        *runs("er", [44.0, 45.0, 46.5], "lite", correct="wa"),
        *runs("er-bnt", [51.0, 52.0, 53.5], "lite", correct="wa"),
        *runs("er-ace", [61.0, 62.0, 63.5], "lite"),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[6]
    assert "Seems behind with WA" in text
    assert "repair the same" not in text
    assert "A better loss, ER-ACE: Seems behind: ER-BNT against ER-ACE" in text


def test_the_summary_says_what_a_tracker_gains():
    trained = [
        *runs("er-cur+buf", [40.0, 41.0, 42.5], "lite"),
        *runs("er-track-memory", [50.0, 51.0, 52.0], "lite"),
        *runs("er-track-aligned", [35.0, 47.0, 43.0], "lite"),
        *runs("cls-er", [50.0, 51.0, 52.0], "lite", lr=0.1),
        *runs("cls-er-working-phi", [60.0, 61.0, 62.5], "lite", lr=0.1),
    ]
    text = headlines(gather(trained), findings(gather(trained)))[7]
    _, separate, stable = text.splitlines()
    assert "ER-Cur+Buf: Seems ahead: ER-Track-Memory +9.83 (9.12 to 10.55). Undecided: " in separate
    assert stable.endswith(
        ": Seems behind: CLS-ER, lr 0.1 -10.17 (-10.88 to -9.45). 3 seeds, `lite`."
    )
    assert headlines([], findings([]))[7].endswith("** No verdict yet.")


def test_a_run_with_the_streams_own_memory_is_one_of_a_study_that_does_not_name_it():
    made = runs("der++", [50.0] * 3, epochs=1, memory=500)
    assert [e.study.name for e in gather(made)] == ["norms-online"]
