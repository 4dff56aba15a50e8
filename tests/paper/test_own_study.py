"""A study of one's own: a TOML file like the paper's, whose mistakes are named by their key."""

import pytest

from bntricks import UserError, load_study
from bntricks.report.build import build
from bntricks.sweeps.plan import plan
from helpers.records import runs

STREAM = "seq-digits"
STUDY = """
title = "Is ER-BNT better than ER?"
methods = ["er", "er-bnt"]
streams = ["seq-digits"]

[scale.smoke]
seeds = 2
overrides = { epochs = 1 }

[scale.medium]
seeds = 4
overrides = { epochs = 3, memory = 50 }

[[claims]]
text = "ER-BNT has a higher {metric} than ER on {stream}"
kind = "greater"
metric = ["acc", "bwt"]
stream = "seq-digits"
a = { method = "er-bnt" }
b = { method = "er" }
"""


@pytest.fixture
def study(tmp_path):
    def written(old="", new=""):
        assert old in STUDY
        path = tmp_path / "mine.toml"
        path.write_text(STUDY.replace(old, new, 1))
        return path

    return written


def test_it_is_named_after_its_file_and_needs_no_scale_that_it_does_not_have(study):
    mine = load_study(study())
    assert (mine.name, len(mine.claims), mine.artefacts) == ("mine", 2, ())
    assert load_study(str(study())) == mine
    assert mine.checked_scale(None) == "medium"  # its largest, as it has no lite
    with pytest.raises(
        UserError, match="scale paper: mine has no such scale: it has smoke, medium"
    ):
        mine.checked_scale("paper")
    assert load_study("pilot").checked_scale(None) == "lite"


def test_its_claims_are_judged_in_its_own_name(study):
    knobs = {"stream": STREAM, "epochs": 3, "memory": 50}
    records = runs("er", [40, 41, 42], **knobs) + runs("er-bnt", [50, 51, 53], **knobs)
    report = build(records, load_study(study()), "medium")
    assert report.verdict_table.title == "The study's claims"
    assert report.verdicts[0].verdict == "suggested"  # three seeds confirm nothing
    assert report.verdicts[0].paper.mean is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title", "titel", "title: this key is required"),
        (
            "[scale.smoke]",
            "colour = 1\n[scale.smoke]",
            "colour: no such key; there are name, title",
        ),
        ("seeds = 2", "seed = 2", "scale.smoke.seeds: this key is required"),
        ("seeds = 2", "seeds = 2\nseed = 2", "scale.smoke.seed: no such key, did you mean seeds?"),
        ("scale.smoke", "scale.tiny", "scale.tiny: Input should be 'paper', 'medium', 'lite'"),
        ("epochs = 1", "epohcs = 1", "epohcs: unknown run option, did you mean epochs?"),
        ("epochs = 1", "epochs = 0", "scale.smoke.overrides: epochs 0: input should be greater"),
        ("epochs = 1", "seed = 1", "seed: decided by the study"),
        ('kind = "greater"', 'kind = "bigger"', "claims: claim 1: kind: Input should be 'greater'"),
        ("kind", "knid", "claim 1: kind: this key is required"),
        ("{metric}", "{metrics}", "text: it may name {metric}, {stream} and {variant} in braces"),
        ('"acc"', '"accuracy"', "unknown metric 'accuracy': there are acc"),
        ('{ method = "er" }', '{ methods = "er" }', "claim 1: b.method: this key is required"),
        ('b = { method = "er" }', 'b = { method = "gem" }', "gem on seq-digits is not part of"),
        ("title =", "title", "not TOML: "),
    ],
)
def test_a_mistake_is_one_line_with_the_key_and_what_is_allowed(study, old, new, message):
    path = study(old, new)
    with pytest.raises(UserError) as caught:
        load_study(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none\.toml"):
        load_study(tmp_path / "none.toml")


def test_other_methods_join_a_study_and_options_replace_its_own():
    pilot = load_study("pilot")
    configs = plan(pilot, "smoke", methods=["er", "gem"], seeds=1, options={"lr": 0.1})
    assert [(config.method, config.lr, config.epochs) for config in configs] == [
        ("er", 0.1, 1),
        ("gem", 0.1, 1),
    ]
    with pytest.raises(UserError, match="unknown method 'gme': did you mean gem"):
        plan(pilot, "smoke", methods=["gme"])
    with pytest.raises(UserError, match="memory: buffers compares values of this option"):
        plan(load_study("buffers"), "smoke", options={"memory": 3})
    with pytest.raises(UserError, match="epochs 0"):
        plan(pilot, "smoke", options={"epochs": 0})


PILOT = {"image_size": 16, "width": 16, "blocks": 1, "epochs": 40, "memory": 200}


def judged(**knobs):
    """The pilot's verdict on ER-Cur+Buf against ER, from runs with these options."""
    finals = {"er": [40, 41, 42], "er-cur+buf": [50, 51, 53]}
    records = [run for name, own in finals.items() for run in runs(name, own, **PILOT | knobs)]
    report = build(records, load_study("pilot"), "lite")
    verdict = next(each for each in report.verdicts if each.ours is not None)
    return verdict, " ".join(report.results.notes)


def test_the_papers_claims_are_not_judged_by_another_protocol_and_the_report_says_why():
    verdict, notes = judged()
    assert (verdict.verdict, verdict.reason) == ("suggested", "")
    assert "Not the study's own protocol" not in notes
    verdict, notes = judged(lr=0.1, memory=300)
    assert (verdict.verdict, verdict.reason) == ("not judged", "changed protocol")
    assert "lr 0.1 (study: 0.03)" in notes
    assert "memory 300 (study: 200)" in notes
    assert judged(threads=2)[0].verdict == "suggested", "which changes nothing but last bits"
