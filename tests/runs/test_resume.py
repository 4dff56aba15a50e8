"""A run that is stopped anywhere and goes on is the same run, for every method."""

import random
import signal
from time import sleep as real_sleep

import pytest
import torch

import kill_and_resume
from bntricks.batch import shuffled
from bntricks.errors import UserError
from bntricks.methods import entries
from bntricks.runs.config import Config
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import train
from bntricks.system.stopping import postponed
from bntricks.training.checkpoint import NEWEST, Checkpoints, digest, pack, unpack
from bntricks.training.loop import Position, batches

pytestmark = pytest.mark.fault

LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 10, "memory": 20, "epochs": 2}
LITTLE |= {"batch": 12, "memory_batch": 12}


class PulledPlugError(Exception):
    pass


class Failing(Checkpoints):
    """Power is lost just after the n-th checkpoint, or never."""

    def __init__(self, *arguments, after=None, **how):
        super().__init__(*arguments, **how)
        self.after, self.count = after, 0

    def save(self, state):
        super().save(state)
        self.count += 1
        if self.count == self.after:
            raise PulledPlugError


def outcome(config, stream, folder, after=None):
    kept = Failing(folder, made_with(config, stream), seconds=0, after=after)
    return train(config, stream, checkpoints=kept), kept.count


def everything(found):
    """All bits of a finished run; the network's as it was saved."""
    state = found.learner.state_dict()
    beside = (found.untrained, found.just_before, found.confusion, found.epochs)
    return digest(state), found.accuracy, found.within, beside


def trained(config, stream):
    return everything(train(config, stream))


@pytest.mark.parametrize("method", sorted(entries()))
def test_going_on_gives_the_same_bits(tmp_path, method):
    hyper = {"gate": 2.0} if "gate" in entries()[method].hyper() else {}
    goes_on(tmp_path, Config(method=method, hyper=hyper, stream="seq-digits", seed=3, **LITTLE))


@pytest.mark.parametrize(
    ("method", "recipe"),
    [
        ("er-even-bnt", {"optimiser": "adamw", "schedule": "one-cycle", "even_batches": True}),
        ("gem", {"optimiser": "adam", "schedule": "steps", "clip": 0.5}),
        ("fdr", {"optimiser": "sgdm", "sgd_momentum": 0.7, "weight_decay": 1e-3}),
    ],
)
def test_going_on_keeps_an_optimisers_state_and_the_place_in_the_schedule(tmp_path, method, recipe):
    goes_on(tmp_path, Config(method=method, stream="seq-digits", lr=0.003, **recipe, **LITTLE))


@pytest.mark.parametrize("method", ["er-bnt", "a-gem"])
def test_going_on_under_another_protocol_gives_the_same_bits(tmp_path, method):
    protocol = {"class_order": "5", "first": 4, "increment": 3, "blurry": 0.2}
    goes_on(tmp_path, Config(method=method, stream="seq-digits", **protocol, **LITTLE))


def goes_on(tmp_path, config):
    stream, config = resolve(config, None)
    stream = stream[:3]
    expected = trained(config, stream)
    found, count = outcome(config, stream, tmp_path)
    assert everything(found) == expected
    Checkpoints(tmp_path, {}).remove()
    # Stopped again and again, at steps and at ends of tasks, first to last.
    draw, left = random.Random(config.method), count
    while left > 3:
        after = draw.randint(1, left // 2 + 1)
        with pytest.raises(PulledPlugError):
            outcome(config, stream, tmp_path, after)
        left -= after
    found, _ = outcome(config, stream, tmp_path)
    assert everything(found) == expected


def test_going_on_keeps_the_accuracy_of_the_epochs_so_far(tmp_path):
    config = Config(method="er-bnt", stream="seq-digits", **LITTLE)
    stream, config = resolve(config, None)
    whole = train(config, stream, epoch_accuracy=True)
    interrupted = Failing(tmp_path, made_with(config, stream), seconds=0, after=5)
    with pytest.raises(PulledPlugError):
        train(config, stream, checkpoints=interrupted, epoch_accuracy=True)
    checkpoints = Checkpoints(tmp_path, made_with(config, stream))
    again = train(config, stream, checkpoints=checkpoints, epoch_accuracy=True)
    assert everything(again) == everything(whole)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_run_that_fails_by_itself_is_not_counted_as_killed(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("not today")

    monkeypatch.setattr(kill_and_resume, "run", fail)
    assert kill_and_resume.wait(kill_and_resume.start_run(Config(), tmp_path)) == 1
    monkeypatch.setattr(kill_and_resume.time, "sleep", lambda seconds: real_sleep(2))
    with pytest.raises(AssertionError, match="failed by itself, with status 1"):
        kill_and_resume.disturbed(Config(), tmp_path, 1, 0.0, random.Random(0))


def test_a_checkpoint_says_that_its_statistics_are_stale(tmp_path):
    stream, config = resolve(
        Config(method="er-bnt", stream="seq-digits", **{**LITTLE, "epochs": 300}), None
    )
    with pytest.raises(PulledPlugError):
        outcome(config, stream, tmp_path, after=5)
    saved = unpack((tmp_path / NEWEST).read_bytes())["state"]
    assert saved["learner"]["since_skip"] is not None
    assert saved["learner"]["cost"]["tracking_skipped"] > 0


def test_a_state_that_does_not_fit_is_a_clear_line(tmp_path):
    stream, config = resolve(Config(method="er", stream="seq-digits", **LITTLE), None)
    kept = Checkpoints(tmp_path, made_with(config, stream))
    for wrong in ({}, {"learner": {}}, {"learner": 3}):
        kept.save(wrong)
        with pytest.raises(UserError, match="train again"):
            train(config, stream, checkpoints=kept)


def test_batches_go_on_in_the_middle_of_an_epoch_in_the_same_order():
    whole = [ids.tolist() for ids in _all(Position(), seed=1)]
    for stop in range(1, len(whole)):
        place, order = Position(), torch.Generator().manual_seed(1)
        stream = batches(place, 10, 4, 3, order)
        first = [next(stream).tolist() for _ in range(stop)]
        saved = unpack(pack({"place": vars(place), "order": order.get_state()}))
        again = torch.Generator().manual_seed(99)
        again.set_state(saved["order"])
        rest = [ids.tolist() for ids in batches(Position(**saved["place"]), 10, 4, 3, again)]
        assert first + rest == whole


def test_batches_are_those_of_a_plain_loop():
    order = torch.Generator().manual_seed(1)
    plain = [ids.tolist() for _ in range(3) for ids in shuffled(10, 4, order)]
    assert [ids.tolist() for ids in _all(Position(), seed=1)] == plain


def _all(place, seed):
    return batches(place, 10, 4, 3, torch.Generator().manual_seed(seed))


def test_a_request_to_stop_waits_and_is_then_answered():
    heard = []
    usual = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))

    def work():
        with postponed() as asked:
            assert not asked()
            signal.raise_signal(signal.SIGTERM)
            assert asked()
            assert heard == []
            signal.raise_signal(signal.SIGTERM)  # the second time, at once
            assert heard == [signal.SIGTERM]

    try:
        with pytest.raises(SystemExit) as stopped:
            work()
        assert stopped.value.code == 143
        assert heard == [signal.SIGTERM] * 2
        signal.raise_signal(signal.SIGTERM)  # and as before, afterwards
        assert len(heard) == 3
    finally:
        signal.signal(signal.SIGTERM, usual)
