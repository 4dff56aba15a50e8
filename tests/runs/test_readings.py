"""One training, several readings: one folder, rows for all of them, and the same bits."""

import pytest
import torch

from bntricks import Config, UserError, run, train
from bntricks.methods import entries, make, method
from bntricks.networks.head import last_linear
from bntricks.recipes.options import READINGS
from bntricks.recipes.rewrite import corrected
from bntricks.report.groups import group
from bntricks.report.records import load_records
from bntricks.runs.describe import describe
from bntricks.runs.readings import readings, trunk
from bntricks.runs.record.file import read
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import build
from bntricks.sweeps.once import Training, trainings
from bntricks.training.checkpoint import Checkpoints, digest
from bntricks.training.readings import Readings

SMALL = {"stream": "seq-digits", "images_per_class": 16, "epochs": 1, "width": 4}
SMALL |= {"blocks": 1, "stages": 2, "memory": 20}


def config(**options):
    return Config(**{**SMALL, "method": "er", **options})


def resolved(**options):
    return resolve(config(**options), None)[1]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    run(config(correct="bic"), out=out)
    return out


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_is_what_a_training_of_its_own_would_have_given(out, name):
    """`train` knows no readings: it trains whatever it is asked for."""
    record = run(config(correct=name), out=out)
    assert record.already_there
    assert len(list(out.iterdir())) == 1
    stream, own = resolve(config(correct=name), None)
    alone = train(own, stream)
    assert [list(row) for row in record.accuracy] == alone.accuracy
    assert [list(row) for row in record.task_il_accuracy] == alone.within
    assert record.config == own
    assert record.digest["network"] == digest(alone.learner.net.state_dict())


def test_the_run_itself_has_its_readings_and_a_report_has_a_row_for_each(out):
    record = run(config(), out=out)
    assert record.already_there
    assert list(record.readings) == list(READINGS)
    assert read(record.path / "record.json").readings == record.readings
    assert [each.label for each in group([record])] == ["ER"]
    groups = group(load_records(out))
    assert [each.label for each in groups] == [
        "ER",
        *sorted(f"ER (correct {name})" for name in READINGS),
    ]
    assert len({each.records[0].config.identity("") for each in groups}) == 5
    none, bic, *_ = groups
    assert bic.records[0].acc == run(config(correct="bic"), out=out).acc
    assert none.records[0].accuracy == record.accuracy


def test_a_run_without_readings_is_trained_again_for_them_to_the_same_bits(tmp_path):
    plain = run(config(seed=1), out=tmp_path)
    assert plain.readings is None
    assert "readings" not in plain.to_json()
    again = run(config(seed=1), out=tmp_path, readings=True)
    assert again.readings is not None
    assert (again.digest, again.accuracy) == (plain.digest, plain.accuracy)


def test_a_method_without_readings_is_not_trained_again_for_them(tmp_path):
    first, again = (run(config(method="icarl"), out=tmp_path, readings=True) for _ in range(2))
    assert first.readings == {}
    assert again.already_there


def test_the_new_options_rename_no_run_at_their_defaults():
    plain = resolved()
    assert resolved(correct="none", head="linear", recalibrate="off") == plain
    assert not {"correct", "head", "recalibrate"} & plain.changed()
    others = [resolved(correct="wa"), resolved(head="cosine"), resolved(recalibrate="memory")]
    assert len({each.identity("") for each in (plain, *others)}) == 4
    assert resolved(method="er-recalibrate", recalibrate="memory") == resolved(
        method="er-recalibrate"
    )


def test_an_option_that_adds_nothing_to_a_recipe_is_no_part_of_a_runs_name():
    name = "test-aligned"
    try:
        method(name, title="ER, aligned")(lambda: corrected(make("er"), "wa"))
        plain = resolved(method=name)
        assert resolved(method=name, correct="wa") == plain
        assert resolved(method=name, correct="bic") != plain
    finally:
        del entries()[name]


def test_only_what_moves_weights_is_trained_apart():
    asked = [resolved(correct=name) for name in ("none", "wa", *READINGS)]
    assert trainings(asked) == [Training(resolved(), True), Training(resolved(correct="wa"), False)]
    assert set(readings(resolved(correct="wa"))) == set()
    family = ("cls-er", "cls-er-working-phi", "cls-er-working", "cls-er-split")
    trained = trainings([resolved(method=name) for name in family])
    assert [each.config.method for each in trained] == ["cls-er", "cls-er-split"]
    assert trunk(resolved(method="er-bnt-imbalance-tracker")).method == "er-bnt-imbalance-tracker"


def test_variants_of_cls_er_are_read_off_one_training(tmp_path):
    record = run(config(method="cls-er-working-phi"), out=tmp_path)
    assert record.method == "cls-er-working-phi"
    assert record.trained_as == "cls-er"
    stream, own = resolve(config(method="cls-er-working-phi"), None)
    assert [list(row) for row in record.accuracy] == train(own, stream).accuracy
    assert len(list(tmp_path.iterdir())) == 1


LONG = {"images_per_class": 32, "batch": 8, "epochs": 4, "momentum": 0.9}
"""32 steps a task, where φ forgets within 19."""


@pytest.mark.parametrize(
    ("trained", "reading"),
    [
        ("er-cur+buf", "er-bnt"),
        ("er-cur+buf", "er-track-memory"),
        ("er-cur+prev", "er-bnt-no-simulator"),
        ("er-ace", "er-ace-bnt"),
    ],
)
def test_methods_whose_phi_follows_another_batch_are_read_off_one_training(trained, reading):
    stream, own = resolve(config(method=trained, **LONG), None)
    stream = stream[:3]
    outcome = train(own, stream, readings=True)
    alone = train(resolved(method=reading, **LONG), stream)
    assert outcome.readings[reading] == {"accuracy": alone.accuracy, "within": alone.within}
    read = outcome.reader.read_by(reading)
    assert digest(read.net.state_dict()) == digest(alone.learner.net.state_dict())
    assert digest(read.net.state_dict()) != digest(outcome.learner.net.state_dict())
    assert outcome.learner.state.since_skip is not None  # tracking passes were left out


def test_readings_with_another_phi_leave_their_training_alone():
    stream, own = resolve(config(method="er-cur+buf"), None)
    read, plain = train(own, stream, readings=True), train(own, stream)
    record = describe(own, stream, read)
    for row in (record, record.read_as("er-bnt")):
        assert row.new_share_of_phi == make(row.method).columns()["new_share_of_phi"]
    assert digest(read.learner.net.state_dict()) == digest(plain.learner.net.state_dict())
    assert (read.accuracy, read.learner.cost) == (plain.accuracy, plain.learner.cost)


def test_a_reading_is_not_predicted_with_while_its_phi_is_stale():
    stream, own = resolve(config(method="er-cur+buf"), None)
    learner, task = build(own, stream), stream[0]
    reader = Readings(learner, readings(own))
    learner.begin(task.classes, task.train.x, task.train.y)
    learner.observe(task.train.x[:8], task.train.y[:8], horizon=1000)
    with pytest.raises(RuntimeError, match="running statistics lack tracking passes"):
        reader.read_by("er-bnt").predict(task.test.x)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "er"},  # no other method trains θ as it does
        {"method": "er-track-memory", "norm": "brn"},  # θ feels φ
        {"method": "er-cur+buf", "norm": "gn"},  # there is no φ
        {"method": "er-cur+buf", "recalibrate": "memory"},
        {"method": "icarl-bnt-imbalance-tracker"},  # its teacher predicts with φ
        {"method": "der++"},  # draws a second memory batch
    ],
)
def test_a_method_whose_theta_would_differ_is_not_a_reading(options):
    assert set(readings(resolved(**options))) <= set(READINGS)


class PulledPlugError(Exception):
    pass


class Plug(Checkpoints):
    """Loses power after so many checkpoints."""

    left = 9

    def save(self, state):
        super().save(state)
        self.left -= 1
        if not self.left:
            raise PulledPlugError


@pytest.mark.fault
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"correct": "wa", "method": "er-bnt", "recalibrate": "memory"},
        {"head": "cosine", "correct": "prior", "method": "er-ace"},
        {"method": "cls-er"},
        {"method": "er-cur+buf"},
    ],
    ids=["readings", "aligned and recalibrated", "cosine", "averages", "trackers"],
)
def test_going_on_gives_the_same_bits_and_readings(tmp_path, options):
    stream, own = resolve(config(**options), None)
    whole = train(own, stream, readings=True)
    with pytest.raises(PulledPlugError):
        train(
            own,
            stream,
            readings=True,
            checkpoints=Plug(tmp_path, made_with(own, stream), seconds=0),
        )
    gone_on = train(
        own, stream, readings=True, checkpoints=Checkpoints(tmp_path, made_with(own, stream))
    )
    assert gone_on.accuracy == whole.accuracy
    assert gone_on.readings == whole.readings
    assert digest(gone_on.learner.state_dict()) == digest(whole.learner.state_dict())


def test_a_cosine_head_starts_from_the_same_weights_and_knows_no_lengths():
    stream, own = resolve(config(head="cosine"), None)
    net, plain = build(own, stream).net, build(resolved(), stream).net
    assert torch.equal(last_linear(net).weight, last_linear(plain).weight)
    assert torch.equal(net.conv.weight, plain.conv.weight)
    assert last_linear(net).bias is None
    f = torch.rand(3, last_linear(net).in_features)
    expected = 10 * torch.cosine_similarity(f[:, None], last_linear(net).weight[None], dim=2)
    assert torch.allclose(last_linear(net)(f), expected, atol=1e-5)
    assert torch.allclose(last_linear(net)(7 * f), expected, atol=1e-5)
    x = stream[0].test.x
    with torch.no_grad():
        learner = build(own, stream)
        scores = learner.scores(x)  # by the folded network
        assert torch.allclose(scores, learner.net.eval()(learner.view(x, None)), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "cosine", "correct": "wa"}, "correct wa: it compares the lengths of weights"),
        ({"head": "cosine", "correct": "wa-eval"}, "correct wa-eval: it compares the lengths"),
        ({"head": "cosine", "method": "gss"}, "head cosine: gss takes the gradients of single"),
        ({"method": "icarl", "correct": "prior"}, "correct prior: it corrects the layer"),
        ({"method": "sgd", "recalibrate": "memory"}, "recalibrate: φ is estimated on the memory"),
        ({"norm": "gn", "recalibrate": "memory"}, "norm gn: it has no running statistics"),
        ({"correct": "bci"}, "unknown correction 'bci': did you mean bic"),
        ({"head": "cosin"}, "unknown head 'cosin': did you mean cosine"),
        ({"recalibrate": "memry"}, "unknown way to recalibrate 'memry': did you mean memory"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(options, message):
    with pytest.raises(UserError, match=message) as refused:
        resolved(**options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"correct": "bic"}, "correct bic: .* do not split"), ({"method": "cls-er"}, "cannot be")],
)
def test_corrections_and_averages_are_not_split_over_processes(monkeypatch, options, message):
    monkeypatch.setattr("bntricks.runs.resolve.launched", lambda: (0, 2))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UserError, match=message):
        resolved(**options, ranks=2)
