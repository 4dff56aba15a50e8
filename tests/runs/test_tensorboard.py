"""What TensorBoard gets to see: what the log says, and no other."""

import json
import math

import pytest
import torch

from bntricks.norm import drift, phi
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from helpers.tiny import network

LITTLE = {"width": 2, "stages": 2, "blocks": 1, "images_per_class": 20, "epochs": 2}


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: found.Scalars(tag) for tag in found.Tags()["scalars"]}


def test_losses_accuracies_and_the_drift_of_phi_are_mirrored(tmp_path):
    record = run(
        Config(method="er-bnt", stream="seq-digits", memory=20, **LITTLE),
        out=tmp_path,
        track="every-step",
        tensorboard=True,
    )
    (folder,) = tmp_path.glob("*/tensorboard")
    shown = scalars(folder)
    log = [json.loads(line) for line in (folder.parent / "log.jsonl").open()]
    tasks = [event for event in log if event["event"] == "task"]
    epochs = [event for event in log if event["event"] == "epoch"]
    assert [s.value for s in shown["accuracy/task 1"]] == pytest.approx(
        [row[0] for row in record.accuracy]
    )
    assert len(shown["accuracy/task 5"]) == 1
    assert {s.step for s in shown["loss"]} >= {event["step"] for event in epochs}
    drifts = {tag for tag in shown if tag.startswith("phi drift/")}
    assert drifts == {f"phi drift/{layer}" for layer in tasks[0]["phi_drift"]}
    assert all(math.isfinite(s.value) for tag in drifts for s in shown[tag])
    assert all("phi_drift" in event for event in epochs)


def test_without_tracking_every_step_drift_is_told_when_tasks_end_only(tmp_path):
    run(Config(method="er-bnt", stream="seq-digits", memory=20, **LITTLE), out=tmp_path)
    log = [json.loads(line) for line in next(tmp_path.glob("*/log.jsonl")).open()]
    told = {event["event"] for event in log if "phi_drift" in event}
    assert told == {"task"}
    assert not list(tmp_path.glob("*/tensorboard"))


def test_drift_is_the_shift_in_standard_deviations():
    net = network()
    since = phi(net)
    net[1].running_var.fill_(9.0)  # φ is copied: what is in `since` stays 1
    net[1].running_mean += 2.0
    assert drift(net, since) == {"1": pytest.approx(2.0, rel=1e-4), "4": 0.0}
    assert torch.equal(since["1"]["var"], torch.ones(8))
