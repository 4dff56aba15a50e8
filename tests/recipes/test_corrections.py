"""Corrections of the head's bias: what each fits, what it does to logits, and what it leaves."""

import pytest
import torch
import torch.nn.functional as F

from bntricks import Batch, Learner, UserError, bn_tricks, make
from bntricks.recipes.corrections import CORRECTIONS, AlignWeights, Rectified, fit_bias
from bntricks.recipes.options import READINGS
from bntricks.recipes.recalibrations import RecalibrateOnMemory
from bntricks.recipes.rewrite import corrected, recalibrated
from bntricks.training.checkpoint import digest
from bntricks.training.readings import Readings
from helpers.processes import completed
from helpers.tiny import batches, network, whole

pytestmark = pytest.mark.law

OLD, NEW, UNSEEN = [0, 1], [2, 3], [4, 5]


def learner(name="er", correct="none", tasks=2, observe=lambda learner: None):
    """One that has learned so many tasks of two classes each."""
    learner = Learner(network(), corrected(make(name), correct), memory=12, lr=0.1)
    observe(learner)
    for task in range(1, tasks + 1):
        learner.begin([2 * task - 2, 2 * task - 1], *whole(task))
        for x, y in batches(task):
            learner.observe(x, y)
        learner.end(*whole(task))
    return learner


def test_aligned_weights_are_as_long_for_new_classes_as_for_old_ones_and_stay_so():
    trained = learner()
    linear = trained.net[-1]
    before, bias = linear.weight.detach().clone(), linear.bias.detach().clone()
    AlignWeights()(trained.state, None)
    once = linear.weight.detach().clone()
    length = once.norm(dim=1)
    assert length[NEW].mean() == pytest.approx(length[OLD].mean().item(), rel=1e-5)
    assert length[NEW].mean() != pytest.approx(before.norm(dim=1)[NEW].mean().item(), rel=1e-3)
    assert torch.equal(once[OLD + UNSEEN], before[OLD + UNSEEN])
    assert torch.equal(linear.bias, bias)
    AlignWeights()(trained.state, None)
    assert torch.allclose(linear.weight, once, rtol=1e-6)


def test_in_the_first_task_there_is_nothing_to_align():
    assert torch.equal(
        learner(correct="wa", tasks=1).net[-1].weight, learner(tasks=1).net[-1].weight
    )


def test_aligning_for_prediction_alone_predicts_as_aligned_weights_do_and_trains_as_without():
    plain, reading = learner(), learner(correct="wa-eval")
    assert torch.equal(plain.net[-1].weight, reading.net[-1].weight)
    x, _ = whole(2)
    scores = reading.scores(x)
    assert not torch.allclose(scores, plain.scores(x))
    AlignWeights()(plain.state, None)
    assert torch.allclose(scores, plain.scores(x), atol=1e-6)


NEW_COLUMNS = torch.tensor([False, False, True, True])


def distorted(a, b, rows=20_000):
    """Four classes, as frequent as each other, with logits that are right once those of the last
    two, z, become a·z + b: of normal densities around 2 with variance 2, z is the log posterior."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(rows) % 4
    noise = torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    right = 2 * F.one_hot(y, 4) + 2**0.5 * noise
    return torch.where(NEW_COLUMNS, (right - b) / a, right), y


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.6, -0.4), (0.4, -0.5), (1.4, 0.3)])
def test_bic_recovers_the_numbers_that_make_logits_right(a, b):
    assert fit_bias(*distorted(a, b), NEW_COLUMNS, penalty=0.0) == pytest.approx((a, b), abs=0.05)


def test_bic_leaves_right_logits_alone_and_is_held_back_by_its_penalty():
    assert fit_bias(*distorted(1.0, 0.0), NEW_COLUMNS) == pytest.approx((1, 0), abs=0.03)
    _, b = fit_bias(*distorted(1.0, -1.5), NEW_COLUMNS)
    assert -1.2 < b < -0.2  # a takes up some of it


def test_bic_gives_every_class_the_same_weight():
    z, y = distorted(0.6, -0.4)
    rare = (y != 0) | (torch.arange(len(y)) % 10 == 0)
    found = fit_bias(z[rare], y[rare], NEW_COLUMNS, penalty=0.0)
    assert found == pytest.approx((0.6, -0.4), abs=0.08)


def test_bic_stays_finite_on_a_memory_without_a_mistake_and_with_large_logits():
    y = torch.arange(8) % 4
    z = 200 * F.one_hot(y, 4).double()
    a, b = fit_bias(z, y, NEW_COLUMNS)
    assert a == pytest.approx(1, abs=0.1)
    assert b == pytest.approx(0, abs=0.1)


def test_il2m_leaves_a_sample_alone_that_an_old_class_wins_and_rescores_the_others_by_hand():
    new, seen = torch.tensor([False, False, True, False]), torch.tensor([True, True, True, False])
    fitted = {"factor": torch.tensor([3.0, 0.5, 1.0, 1.0]), "new": new, "seen": seen}
    p = torch.tensor([[0.5, 0.3, 0.2], [0.3, 0.2, 0.5], [0.1, 0.3, 0.6]])
    logits = torch.cat([p.log(), torch.full((3, 1), 9.0)], 1)  # an unseen class has no say
    expected = [[0.5, 0.3, 0.2, 0], [0.9, 0.1, 0.5, 0], [0.3, 0.15, 0.6, 0]]
    assert torch.allclose(Rectified().rescore(fitted, logits), torch.tensor(expected))


def test_il2m_remembers_how_sure_the_network_was_of_a_class_when_it_was_new():
    trained = learner(correct="il2m", tasks=1)
    first = trained.state.fitted
    x, y = whole(1)
    p = trained.state.outputs(x)[:, OLD].softmax(1)
    for label in OLD:
        assert first["then"][label] == pytest.approx(p[y == label, label].mean().item(), rel=1e-5)
    assert first["sure"][0] == pytest.approx(p.amax(1).mean().item(), rel=1e-5)
    assert (first["factor"] == 1).all()

    trained.begin(NEW, *whole(2))
    for x, y in batches(2):
        trained.observe(x, y)
    trained.end(*whole(2))
    second, memory = trained.state.fitted, trained.memory
    assert torch.equal(second["then"][OLD], first["then"][OLD])
    p = trained.state.outputs(memory.x[: len(memory)])[:, OLD + NEW].softmax(1)
    own = memory.y[: len(memory)] == 0
    ratio = first["then"][0] / p[own, 0].mean() * second["sure"][2] / first["sure"][0]
    assert second["factor"][0] == pytest.approx(ratio.item(), rel=1e-4)
    assert (second["factor"][NEW + UNSEEN] == 1).all()


def test_a_prior_is_the_share_of_each_class_in_what_was_trained_on_in_this_task():
    trained = learner(correct="prior")
    counts = trained.state.trained_on
    assert counts.sum() == sum(len(y) for _, y in batches(2)) + 3 * 12  # and 12 replayed a step
    assert counts[NEW].sum() > counts[OLD].sum()
    x, _ = whole(2)
    raw = trained.state.outputs(x)
    share = (counts + 1) / (counts + 1).sum()
    scores = trained.scores(x)
    assert torch.allclose(scores[:, OLD + NEW], raw[:, OLD + NEW] - share.log().float(), atol=1e-5)
    assert (scores[:, UNSEEN] == -torch.inf).all()


def test_readings_are_the_corrections_that_only_rescore():
    er = make("er")
    only_rescore = [n for n in CORRECTIONS.entries() if corrected(er, n) != er]
    only_rescore = [n for n in only_rescore if corrected(er, n).stages == er.stages]
    assert tuple(only_rescore) == READINGS


@pytest.mark.parametrize("name", READINGS)
def test_reading_off_moves_nothing(name):
    methods = {each: corrected(make("er"), each) for each in READINGS}
    with_readings, plain = learner(observe=lambda own: Readings(own, methods)), learner()
    (readings,) = with_readings.state.observers
    state = digest(with_readings.state_dict())
    x, _ = whole(2)
    direct = learner(correct=name)
    assert torch.equal(readings.read_by(name).scores(x), direct.scores(x))
    assert torch.equal(with_readings.scores(x), plain.scores(x))
    assert digest(with_readings.state_dict()) == state
    assert digest(with_readings.net.state_dict()) == digest(plain.net.state_dict())
    head = direct.method.classify.head(direct.state)
    assert torch.allclose(head(direct.state.features(x)), direct.scores(x), atol=1e-5)


@pytest.mark.parametrize("name", ["wa", *READINGS])
def test_rewrites_commute(name):
    er = make("er")
    assert bn_tricks(corrected(er, name)) == corrected(bn_tricks(er), name)
    assert bn_tricks(recalibrated(er)) == recalibrated(bn_tricks(er))
    assert recalibrated(corrected(er, name)) == corrected(recalibrated(er), name)
    assert corrected(er, "none") == er
    assert recalibrated(er) == make("er-recalibrate") == recalibrated(recalibrated(er))
    both = corrected(recalibrated(er), "wa")
    assert both.stages == (AlignWeights(), RecalibrateOnMemory())
    assert corrected(both, "wa") == both


@pytest.mark.parametrize(
    ("method", "name", "reason"),
    [
        ("icarl", "bic", "another one predicts"),
        ("cls-er", "wa", "another one predicts"),
        ("cls-er-working", "prior", "another one predicts"),
        ("joint", "wa", "all tasks are learned at once"),
        ("sgd", "bic", "stored samples of old classes"),
        ("lwf", "il2m", "stored samples of old classes"),
    ],
)
def test_what_cannot_be_corrected_is_refused(method, name, reason):
    with pytest.raises(UserError, match=rf"correct {name}: .*{reason}"):
        corrected(make(method), name)


@pytest.mark.parametrize("method", ["sgd", "icarl", "er-even"])
def test_a_memory_without_new_samples_recalibrates_nothing(method):
    with pytest.raises(UserError, match=r"recalibrate: .* stores samples of the task while"):
        recalibrated(make(method))


def test_il2m_needs_the_tasks_samples():
    trained = Learner(network(), corrected(make("er"), "il2m"))
    trained.begin(OLD)
    trained.observe(*whole(1))
    with pytest.raises(ValueError, match="IL2M looks at the task's samples"):
        trained.end()


def test_a_batch_of_the_memory_counts_among_what_was_trained_on():
    trained = Learner(network(), make("er-cur+buf"), memory=4)
    trained.begin(OLD)
    trained.memory.append(Batch(torch.randn(4, 5), torch.tensor([1, 1, 1, 1])), task=1)
    trained.observe(torch.randn(3, 5), torch.tensor([0, 0, 0]))
    assert trained.state.trained_on.tolist() == [3, 4]


@pytest.mark.parametrize("name", READINGS)
def test_samples_of_classes_that_are_still_to_come_may_be_in_the_memory(name):
    blurry = Learner(network(), corrected(make("er"), name), memory=12, lr=0.1)
    for own, visitors in ((OLD, NEW), (NEW, [0, 4])):
        y = torch.tensor([*own, *visitors] * 4)
        x = torch.randn(len(y), 5, generator=torch.Generator().manual_seed(len(own)))
        blurry.begin(own, visitors=visitors)
        blurry.observe(x, y)
        blurry.end(x, y)
    assert 4 in blurry.memory.y[: len(blurry.memory)]
    assert set(blurry.predict(x).tolist()) <= {*OLD, *NEW, 4, 5}
    assert all(values[OLD + NEW].isfinite().all() for values in blurry.state.fitted.values())


def test_bic_is_fitted_on_stored_samples_of_the_classes_seen_and_on_no_others():
    trained = learner(correct="bic")
    alone = trained.state.fitted
    trained.memory.keep(torch.arange(8).numpy())
    few = trained.method.classify.fit(trained.state, None)
    trained.memory.append(Batch(torch.randn(4, 5), torch.tensor([4, 5, 4, 5])), task=2)
    with_visitors = trained.method.classify.fit(trained.state, None)
    assert not torch.equal(few["scale"], alone["scale"])
    assert torch.equal(with_visitors["scale"], few["scale"])
    assert torch.equal(with_visitors["shift"], few["shift"])


def test_bic_makes_the_steps_of_torchs_optimiser_and_does_not_import_its_compiler(tmp_path):
    z, y = distorted(0.6, -0.4, rows=200)
    weight = 1 / torch.bincount(y)[y].double()
    weight /= weight.sum()
    ab = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    curvature = (weight * (z[:, NEW_COLUMNS].square().amax(1) + 1)).sum().item() / 2 + 0.1
    optimiser = torch.optim.SGD([ab], lr=min(0.1, 1 / curvature), momentum=0.9)
    for _ in range(200):
        optimiser.zero_grad()
        losses = F.cross_entropy(
            torch.where(NEW_COLUMNS, ab[0] * z + ab[1], z), y, reduction="none"
        )
        ((weight * losses).sum() + 0.1 * ab[1] ** 2 / 2).backward()
        optimiser.step()
    assert fit_bias(z, y, NEW_COLUMNS) == tuple(ab.tolist())
    script = (
        "import sys, torch; from bntricks.recipes.corrections import fit_bias; "
        "fit_bias(torch.eye(4), torch.arange(4), torch.arange(4) > 1); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert completed(script=script, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("name", READINGS)
def test_what_was_fitted_says_nothing_of_outputs_that_the_head_has_grown_by(name):
    trained = learner(correct=name)
    x, _ = whole(2)
    before = trained.scores(x)
    trained.grow(8)
    scores = trained.scores(x)
    assert torch.equal(scores[:, :6], before)
    assert torch.equal(scores.argmax(1), before.argmax(1)) or name in ("bic", "wa-eval")
    trained.begin([6, 7], x, torch.full((len(x),), 6))
    trained.observe(x[:7], torch.full((7,), 6))
    trained.end(x, torch.full((len(x),), 6))
    assert trained.scores(x).shape == (len(x), 8)


def test_copies_that_weigh_as_much_as_one_sample_count_as_one():
    plain, copying = (Learner(network(), make(n), memory=12) for n in ("er", "er-balance-batch"))
    for task in (1, 2, 3):
        for each in (plain, copying):
            each.begin([2 * task - 2, 2 * task - 1])
            for x, y in batches(task):
                each.observe(x, y)
    assert torch.allclose(copying.state.trained_on, plain.state.trained_on)
    assert copying.cost.images > plain.cost.images


def test_counts_of_an_older_snapshot_are_whole_numbers_or_are_not_there():
    trained, other = learner(correct="prior"), learner(correct="prior", tasks=1)
    state = trained.state_dict()
    other.load_state_dict({**state, "trained_on": state["trained_on"].long()})
    x, y = whole(2)
    for each in (trained, other):
        each.observe(x, y)
        each.end(x, y)
    assert torch.equal(other.scores(x), trained.scores(x))
    other.load_state_dict({**state, "trained_on": None})
    other.observe(x, y)
    assert other.state.trained_on.sum() == len(y) + 12
