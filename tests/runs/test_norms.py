"""A run with another normalisation: what it is called, what is refused, and what stays the same."""

import pytest
import torch

from bntricks import NORMS, Batch, Config, Learner, ResNet, UserError, make, train
from bntricks.networks.norms import SCHEMES, bound
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import build
from bntricks.training.checkpoint import Checkpoints, digest

SMALL = {"stream": "seq-digits", "images_per_class": 16, "epochs": 1, "width": 4}
SMALL |= {"blocks": 1, "stages": 2, "memory": 20}
OURS = [name for name in NORMS.entries() if name in SCHEMES]


def resolved(**options):
    return resolve(Config(**{**SMALL, "method": "er", **options}), None)[1]


def test_a_knob_that_the_norm_does_not_have_or_has_by_default_does_not_rename_the_run():
    plain = resolved()
    for options in ({"groups": 2}, {"momentum": 0.1}, {"norm": "bn"}):
        assert resolved(**options) == plain
    assert resolved(momentum=0.0).momentum == 0.0
    assert resolved(momentum=0.01).identity("") != plain.identity("")
    assert resolved(norm="gn", momentum=0.5) == resolved(norm="gn")
    assert resolved(norm="gn", groups=2).groups == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "gn", "method": "er-bnt"}, "norm gn: .* er-bnt's EMA batch: .* er-cur\\+buf"),
        ({"norm": "ln", "method": "icarl-bnt"}, "it would be icarl-bnt-imbalance-tracker"),
        ({"norm": "ln", "method": "der++-bnt"}, "norm ln: .* choose a method without one"),
        ({"norm": "in", "method": "er-recalibrate"}, "norm in: it has no running statistics for"),
        ({"norm": "gn", "method": "gss"}, "norm gn: gss takes the gradients of single images"),
        ({"norm": "frozen", "method": "er-bnt"}, "norm frozen: its running statistics stay"),
        ({"norm": "tbbn", "method": "er-bnt"}, "norm tbbn: it weighs old rows .* such as er$"),
        ({"norm": "tbbn", "method": "er-cur+buf"}, "norm tbbn: .* er-cur\\+buf does not make"),
        ({"norm": "tbbn", "method": "icarl"}, "norm tbbn: .* which icarl does not make"),
        (
            {"norm": "tbbn", "method": "er-balance-joint-train"},
            "norm tbbn: it balances .* er-balance-joint-train names a batch",
        ),
        ({"norm": "adab2n", "method": "der++"}, "norm adab2n: .* such as der\\+\\+-joint$"),
        ({"norm": "adab2n", "method": "der++-bnt"}, "norm adab2n: .* which der\\+\\+-bnt does not"),
        ({"norm": "frozen", "compile": True}, r"norm frozen: it cannot be compiled"),
        ({"norm": "gn", "groups": 3}, "groups 3: a layer of 4 channels"),
        ({"norm": "frosen"}, "unknown normalisation 'frosen': did you mean frozen"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_before_any_work(options, message):
    with pytest.raises(UserError, match=message) as refused:
        resolved(**options)
    assert "\n" not in str(refused.value)


def test_a_variant_of_batchnorm_is_not_split_over_processes(monkeypatch):
    monkeypatch.setattr("bntricks.runs.resolve.launched", lambda: (0, 2))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(UserError, match="norm frozen: it cannot be split over processes"):
        resolved(norm="frozen", ranks=2)


@pytest.mark.parametrize("name", [name for name in OURS if name != "bn"])
def test_one_seed_gives_all_norms_the_same_start_and_the_same_memory(name):
    def run(norm):
        stream, config = resolve(Config(**{**SMALL, "norm": norm, "method": "er"}), None)
        start = {
            key: value.clone()
            for key, value in build(config, stream).net.named_parameters()
            if value.dim() > 1
        }
        return start, train(config, stream[:2]).learner.memory

    (start, memory), (plain_start, plain_memory) = run(name), run("bn")
    assert len(start) == len(plain_start)
    assert all(map(torch.equal, start.values(), plain_start.values()))
    assert torch.equal(memory.x, plain_memory.x)
    assert torch.equal(memory.y, plain_memory.y)


class PulledPlugError(Exception):
    pass


class Plug(Checkpoints):
    """Loses power after so many checkpoints."""

    left = 7

    def save(self, state):
        super().save(state)
        self.left -= 1
        if self.left == 0:
            raise PulledPlugError


@pytest.mark.fault
@pytest.mark.parametrize("name", [name for name in OURS if name != "bn"])
def test_an_interrupted_run_goes_on_to_the_same_bits(name, tmp_path):
    stream, config = resolve(Config(**{**SMALL, "norm": name, "method": "er"}), None)
    stream = stream[:3]
    at_once = train(config, stream)
    with pytest.raises(PulledPlugError):
        train(config, stream, checkpoints=Plug(tmp_path, made_with(config, stream), seconds=0))
    again = train(config, stream, checkpoints=Checkpoints(tmp_path, made_with(config, stream)))
    assert again.accuracy == at_once.accuracy
    assert digest(again.learner.state_dict()) == digest(at_once.learner.state_dict())


def test_the_knobs_of_adaptive_balance_reach_its_layers():
    def learned(**knobs):
        # So few are replayed that some batches lack a task.
        small = {"batch": 8, "memory_batch": 2}
        options = {**SMALL, **small, "method": "er", "norm": "adab2n", **knobs}
        stream, config = resolve(Config(**options), None)
        return digest(train(config, stream[:3]).learner.net.state_dict())

    plain = learned()
    assert plain != learned(lambda_norm=2.0)
    assert plain != learned(kappa=0.7)
    assert plain != learned(as_published=True)


def test_what_was_published_is_another_run_of_adaptive_balance():
    assert resolved(norm="adab2n", as_published=True).as_published
    assert not resolved(norm="cn", as_published=True).as_published
    assert resolved(norm="adab2n", kappa=0.4, lambda_norm=0.1) == resolved(norm="adab2n")


def test_in_the_second_task_task_balanced_normalisation_is_batchnorm():
    """With as many old samples as new ones, one group is what is published."""

    def learned(norm):
        options = {"norm": norm, "method": "er-prev-joint", "memory": 64, "memory_batch": 16}
        stream, config = resolve(Config(**{**SMALL, "batch": 16, **options}), None)
        tasks = [train(config, stream[:count]).learner.state_dict() for count in (2, 3)]
        return [digest(state["net"]) for state in tasks]

    (second, third), (plain_second, plain_third) = learned("tbbn"), learned("bn")
    assert second == plain_second
    assert third != plain_third


def test_under_groupnorm_separate_forwards_are_a_joint_one_at_twice_the_rate():
    """The sum of two means is twice the mean over both, and no image sees another: what ER-Cur+Buf
    gains under GroupNorm is its doubled gradient and nothing else."""

    def after_twenty_steps(name, lr):
        torch.manual_seed(0)
        net = ResNet(4, width=8, blocks=1, stages=2, norm=bound("gn")).double()
        learner = Learner(net, make(name), memory=64, memory_batch=16, lr=lr)
        images = torch.Generator().manual_seed(1)

        def batch(task):
            y = torch.randint(2, (16,), generator=images) + 2 * task - 2
            x = torch.randn(16, 3, 8, 8, generator=images, dtype=torch.float64)
            return x + y[:, None, None, None], y

        for task in (1, 2):
            learner.begin([2 * task - 2, 2 * task - 1])
            if task == 1:  # without a memory batch, the first step would not be doubled
                learner.memory.add(Batch(*batch(1)), task=1)
            for _ in range(10):
                learner.observe(*batch(task))
        return net.state_dict()

    joint, separate = after_twenty_steps("er", 0.06), after_twenty_steps("er-cur+buf", 0.03)
    assert joint.keys() == separate.keys()
    for name in joint:
        assert torch.allclose(joint[name], separate[name], rtol=1e-9, atol=1e-11), name
