"""Every study of the paper is sound: its runs can be asked for, its claims are about its runs."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from bntricks.errors import UserError
from bntricks.methods import entries
from bntricks.paper import SCALES, Claim, Side, Study, load_study, study_names
from bntricks.paper.claims import SPECIAL, SPECIAL_NAMES
from bntricks.recipes.as_published import concerns
from bntricks.recipes.language import Balanced
from bntricks.report.verdicts import paper_difference, paper_entry
from bntricks.runs.config import Config
from bntricks.runs.norms import published_otherwise
from bntricks.runs.readings import recipe
from bntricks.runs.record.file import read
from bntricks.streams.registry import STREAMS
from helpers.pages import ROOT

NAMES = (
    "ablation",
    "bias",
    "buffers",
    "control",
    "exemplars",
    "exemplars-memory",
    "frameworks",
    "long",
    "main",
    "norms",
    "norms-online",
    "overlap",
    "phi-share",
    "pilot",
    "precision",
    "rehearsal-free",
    "statistics",
    "trackers",
)
AGAINST_ITS_OWN_NUMBERS = {  # the last is meant to be: it says that the gain has another cause
    "FDR is not competitive: ER, the weakest baseline adopted, has a higher ACC on Seq-CIFAR-100",
    "FDR is not competitive: ER, the weakest baseline adopted, has a higher ACC on "
    "Seq-Tiny-ImageNet",
    "iCaRL-BNT gains less than 2.5 points of ACC over iCaRL with intact exemplars on Seq-CIFAR-10",
}


def studies():
    return [load_study(name) for name in study_names()]


def claims():
    return [(study, claim) for study in studies() for claim in study.claims]


def test_there_is_a_study_for_every_artefact():
    assert study_names() == NAMES
    assert [study.name for study in studies()] == list(NAMES)
    artefacts = {artefact for study in studies() for artefact in study.artefacts}
    assert artefacts >= {f"Table {n}" for n in (1, 2, 3, 4)} | {f"Figure {n}" for n in range(2, 7)}
    assert artefacts >= {"Figure 1 b", "Figure 1 c"}


def test_every_study_of_the_paper_has_all_scales():
    assert all(set(study.scale) == set(SCALES) for study in studies() if study.streams)


def test_an_unknown_study_is_answered_with_the_nearest_name():
    with pytest.raises(UserError, match=r"unknown study 'ablations': did you mean ablation\?"):
        load_study("ablations")
    with pytest.raises(UserError, match=r"^unknown study 'xyz': there are ablation, bias, buffers"):
        load_study("xyz")
    with pytest.raises(UserError, match="unknown study 'reported'"):
        load_study("reported")


def test_reading_the_paper_and_judging_runs_need_no_torch():
    code = (
        "import sys; from bntricks.paper import *; import bntricks.report.verdicts;"
        "[load_study(n).configs('lite') for n in study_names()]; load_reported();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_methods_and_streams_exist(name):
    study = load_study(name)
    assert set(study.methods) <= entries().keys()
    assert set(study.streams) <= STREAMS.keys()
    for scale in study.scale.values():
        assert scale.by_stream.keys() <= set(study.streams)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "frameworks"])
def test_every_run_of_a_study_is_another_run(name, scale):
    study = load_study(name)
    configs = [c.model_dump_json() for c in study.configs(scale, costly=True)]
    assert len(configs) == len(set(configs)) > 0


@pytest.mark.parametrize("name", [name for name in NAMES if name != "frameworks"])
def test_the_full_scale_is_the_papers_protocol_with_ten_seeds(name):
    study = load_study(name)
    turned = {key for variant in study.variants for key in variant.overrides}
    kept = set(Config.model_fields) - turned - {"method", "stream", "seed"}
    for config in study.configs("paper"):
        assert config.model_dump(include=kept) == Config().model_dump(include=kept)
    assert {config.seed for config in study.configs("paper")} == set(range(10))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "frameworks"])
def test_the_medium_scale_has_all_images_and_the_papers_memory(name):
    study = load_study(name)
    for config in study.configs("medium", seeds=1):
        assert config.images_per_class is None
        side = Side(method=config.method, stream=config.stream, variant=label_of(study, config))
        entry = paper_entry(study, side)
        assert entry is None or config.memory == entry.memory, config


def label_of(study, config):
    """The variant that this run belongs to."""
    knobs = config.model_dump()
    for variant in study.variants:
        side = Side(method=config.method, stream=config.stream, variant=variant.label)
        if study.variable("medium", side).items() <= knobs.items():
            return variant.label
    raise AssertionError(f"{study.name} has no variant for {config}")


@pytest.mark.parametrize(
    ("name", "method", "folder"),
    [
        ("pilot", "er", "86d414ae889939c5"),
        ("ablation", "er-bnt", "53da5da5d3a87431"),
        ("main", "er-bnt", "53da5da5d3a87431"),
        ("control", "er", "86d414ae889939c5"),
        ("overlap", "er", "86d414ae889939c5"),
    ],
)
def test_studies_at_medium_scale_find_the_runs_that_are_there(name, method, folder):
    config, *_ = [c for c in load_study(name).configs("medium", seeds=1) if c.method == method]
    record = read(ROOT / "docs" / "results" / folder / "record.json")
    assert config == record.config
    assert config.identity(record.data.fingerprint) == folder


@pytest.mark.parametrize("scale", SCALES)
def test_icarl_has_room_for_one_image_of_each_class(scale):
    for study in studies():
        for config in study.configs(scale) if study.streams else ():
            tasks, per_task = map(int, STREAMS[config.stream].tasks.split(" × "))
            memory = config.memory or STREAMS[config.stream].memory
            assert "icarl" not in config.method or memory >= tasks * per_task, (study.name, config)


def test_small_scales_have_smaller_memories_in_the_same_order():
    study = load_study("buffers")

    def sizes(scale):
        return [study.values(scale, "seq-cifar100", v.label)["memory"] for v in study.variants]

    for scale in SCALES:
        assert sizes(scale) == sorted(set(sizes(scale)))
    assert all(little < full for little, full in zip(sizes("lite"), sizes("paper"), strict=True))


def test_costly_pairs_are_run_only_when_asked_for():
    study = load_study("main")
    usual = {(c.method, c.stream) for c in study.configs("smoke", seeds=1)}
    everything = {(c.method, c.stream) for c in study.configs("smoke", seeds=1, costly=True)}
    tiny = "seq-tiny-imagenet"
    assert everything - usual == {("gem", tiny), ("gss", tiny)}
    assert len(everything) == 13 * 3


def test_a_seed_is_finished_before_the_next_begins():
    seeds = [config.seed for config in load_study("control").configs("smoke", seeds=3)]
    assert seeds == sorted(seeds)
    assert seeds.count(0) == 10


def test_the_controls_are_the_runs_they_are_named_for():
    plain = {"lr": 0.03, "balance": "count", "as_published": False, "epochs": 40}
    runs = [
        (c.method, {key: getattr(c, key) for key in plain if getattr(c, key) != plain[key]})
        for c in load_study("control").configs("lite", seeds=1)
    ]
    assert runs == [
        ("er", {}),
        ("er-bnt", {}),
        ("er-recalibrate", {}),
        ("icarl", {}),
        ("icarl-bnt", {}),
        ("er", {"lr": 0.06}),
        ("er-bnt", {"balance": "ratio"}),
        ("icarl", {"as_published": True}),
        ("er", {"epochs": 1}),
        ("er-bnt", {"epochs": 1}),
    ]


def test_no_variant_sets_an_option_that_its_method_does_not_have():
    """It would be trained as if it were not set, and its claims would never find their runs."""
    for study in studies():
        for config in study.configs("paper", seeds=1):
            method = recipe(config)
            published = concerns(method) or published_otherwise(config)
            assert published or not config.as_published, (study.name, config.method)
            balances = isinstance(method.ema, Balanced)
            assert balances or config.balance == "count", (study.name, config.method)


def test_figure_2_needs_no_runs():
    assert load_study("frameworks").configs("paper") == []


def test_claims_are_many_and_each_is_made_once():
    for study in studies():
        texts = [claim.text for claim in study.claims]
        assert len(texts) == len(set(texts))
        assert not any("{" in text for text in texts)
    assert len(claims()) > 100


def test_claims_look_only_at_tasks_that_their_stream_has():
    indexed = [(claim.metric.split(":")[1:], claim.a.stream) for _, claim in claims()]
    assert any(indices for indices, _ in indexed)
    for indices, stream in indexed:
        tasks = int(STREAMS[stream].tasks.split(" × ")[0])
        assert all(int(index) <= tasks for index in indices)


def test_the_paper_agrees_with_its_claims_but_for_these():
    against = set()
    for study, claim in claims():
        difference = paper_difference(study, claim).mean
        if difference is None:
            continue
        if claim.kind == "less":
            agrees = difference < (claim.margin or 0)
        else:
            agrees = abs(difference) < claim.margin if claim.margin else difference > 0
        if not agrees:
            against.add(claim.text)
    assert against == AGAINST_ITS_OWN_NUMBERS


def test_the_papers_differences_by_hand():
    differences = {
        (study.name, claim.text): paper_difference(study, claim).mean for study, claim in claims()
    }
    assert differences["pilot", "ER-Balance-Batch has a lower ACC than ER on Seq-CIFAR-10"] == (
        pytest.approx(61.62 - 56.40)
    )
    assert differences["pilot", "ER-Cur+Prev has a positive BWT on Seq-CIFAR-10"] == 11.32
    assert differences["main", "iCaRL-BNT has a lower BWT than iCaRL on Seq-CIFAR-100"] == (
        pytest.approx(21.41 - 20.49)
    )
    assert differences[
        "buffers", "DER++-BNT has a higher BWT than DER++ on Seq-CIFAR-100 with |M| = 200"
    ] == pytest.approx(67.72 - 54.37)
    gains = [33.29 - 32.92, 39.17 - 37.48, 42.18 - 38.94, 48.78 - 40.81]
    slope = (3 * (gains[3] - gains[0]) + (gains[2] - gains[1])) / 10
    assert differences[
        "buffers", "iCaRL-BNT gains more ACC over iCaRL on Seq-CIFAR-100 the larger the memory is"
    ] == pytest.approx(slope)


def test_other_knobs_than_the_papers_have_no_number_in_the_paper():
    study = load_study("control")
    plain = [c for c in study.claims if paper_difference(study, c).mean is not None]
    assert {(c.a, c.b) for c in plain} == {
        (
            Side(method="er-bnt", stream="seq-cifar10"),
            Side(method="er", stream="seq-cifar10"),
        )
    }


def little_study(**changes):
    scales = {key: {"seeds": 2} for key in SCALES}
    whole = {
        "name": "little",
        "title": "Little",
        "artefacts": ["none"],
        "methods": ["er", "er-bnt"],
        "streams": ["seq-cifar10"],
        "scale": scales,
    }
    return Study.model_validate({**whole, **changes})


STATEMENT = {
    "text": "t",
    "where": "w",
    "kind": "greater",
    "metric": "acc",
    "stream": "seq-cifar10",
    "a": {"method": "er-bnt"},
    "b": {"method": "er"},
}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"variants": [{"overrides": {"epoch": 3}}]},
            "epoch: unknown run option, did you mean epochs",
        ),
        ({"variants": [{"overrides": {"epochs": 0}}]}, "epochs 0: input should be greater"),
        ({"variants": [{"overrides": {"seed": 1}}]}, "seed: decided by the study"),
        ({"variants": [{}, {}]}, "two variants have the same label"),
        (
            {"variants": [{}, {"label": "few", "overrides": {"memory": 200}}]},
            "a variant changes memory, so all must set it",
        ),
        ({"scale": {}}, "a study with runs needs one of paper, medium, lite, smoke"),
        ({"costly": [{"method": "gem", "stream": "seq-cifar10"}]}, "gem on seq-cifar10 is not"),
        ({"claims": [{**STATEMENT, "b": {"method": "sgd"}}]}, "sgd on seq-cifar10 is not"),
        ({"claims": [{**STATEMENT, "variant": "none"}]}, "no variant 'none'"),
        ({"claims": [{**STATEMENT, "metric": "accuracy"}]}, "unknown metric .accuracy."),
        (
            {"claims": [{**STATEMENT, "metric": "accuracy"}]},
            r"learned, every_task, acc_after:K, accuracy:I:J, biased_phi.* phi.nearest_mean_change",
        ),
        (
            {"claims": [{**STATEMENT, "metric": "acc_after_each_task"}]},
            "acc_after_each_task is a list: a claim needs one number, such as acc_after:K",
        ),
        (
            {"scale": {"lite": {"seeds": 1, "by_stream": {"seq-cifar1": {"lr": 0.1}}}}},
            "by_stream has seq-cifar1, no stream of it, did you mean seq-cifar10",
        ),
        ({"claims": [{**STATEMENT, "b": None}]}, "kind greater compares with a side b"),
        ({"claims": [{**STATEMENT, "kind": "similar"}]}, "kind similar needs a margin"),
        (
            {"claims": [{**STATEMENT, "margin": 1.0}]},
            "a margin belongs to the kinds similar and less",
        ),
        ({"claims": [{**STATEMENT, "kind": "trend"}]}, "needs at least two variants in `along`"),
        ({"sneaky": 1}, "Extra inputs are not permitted"),
    ],
)
def test_a_study_that_makes_no_sense_does_not_load(changes, complaint):
    assert little_study().configs("lite", seeds=1)[0] == Config(method="er")
    with pytest.raises(ValidationError, match=complaint):
        little_study(**changes)


def test_a_variant_is_only_for_its_methods():
    variants = [{}, {"label": "fast", "methods": ["er"], "overrides": {"lr": 0.06}}]
    with pytest.raises(ValidationError, match="variant 'fast' is not for er-bnt"):
        little_study(variants=variants, claims=[{**STATEMENT, "variant": "fast"}])


def test_a_claim_is_a_weighted_sum_of_its_sides():
    a, b = Side(method="er-bnt", stream="s"), Side(method="er", stream="s")
    claim = {"text": "t", "where": "w", "metric": "acc", "a": a}
    assert Claim(**claim, kind="sign").terms() == ((1.0, a),)
    assert Claim(**claim, kind="greater", b=b).terms() == ((1.0, a), (-1.0, b))
    trend = Claim(**claim, kind="trend", b=b, along=("x", "y", "z")).terms()
    assert [(weight, str(side)) for weight, side in trend] == [
        (-0.5, "er-bnt, x"),
        (0.5, "er, x"),
        (0.0, "er-bnt, y"),
        (0.0, "er, y"),
        (0.5, "er-bnt, z"),
        (-0.5, "er, z"),
    ]


@pytest.mark.parametrize("scale", [None, "lite"])
def test_a_study_that_trains_nothing_has_no_scale(scale):
    with pytest.raises(UserError, match="frameworks trains nothing, so it has no scale and no"):
        load_study("frameworks").checked_scale(scale)


def test_every_special_metric_that_a_mistake_names_can_be_claimed():
    names = SPECIAL_NAMES.replace(" and ", ", ").replace("K", "2").replace("I:J", "2:1")
    for name in names.split(", "):
        assert SPECIAL.fullmatch(name)
