"""The likeliest classes, and thresholds whose false acceptance is measured."""

import csv
import io
import json

import pytest
import torch

from bntricks import Model, UserError
from bntricks.model.answers import Acceptance, share
from helpers.colours import FIRST, SECOND, pictures, write_folder


def test_candidates_are_the_likeliest_classes_in_order(model):
    loaded = Model.load(model)
    x = torch.from_numpy(pictures("navy", 5, seed=3))
    probabilities = loaded.predict_proba(x)
    for found, own in zip(loaded.answer(x, top=9), probabilities, strict=True):
        assert [each.label for each in found.candidates] == [
            FIRST[k] for k in own.argsort(descending=True)
        ]
        assert found.probability == own.max().item()
        assert found.label == FIRST[own.argmax()]
    with pytest.raises(UserError, match="top 0"):
        loaded.answer(x, top=0)


def test_up_to_the_threshold_there_is_no_label(model):
    loaded = Model.load(model)
    x = torch.from_numpy(pictures("navy", 8, seed=3))
    confidence = loaded.predict_proba(x).max(1).values
    middle = confidence.sort().values[4].item()
    found = loaded.answer(x, threshold=middle)
    assert [each.label is None for each in found] == (confidence <= middle).tolist()
    assert sum(each.label is None for each in found) == 5


def test_a_share_has_wilsons_interval():
    assert str(share(torch.tensor([True] * 9 + [False]))) == "90.0% (59.6 to 98.2)"
    none = share(torch.zeros(20, dtype=torch.bool))
    assert (none.percent, none.low) == (0, 0)
    assert none.high == pytest.approx(16.1, abs=0.05)


def test_a_threshold_is_chosen_on_one_half_of_the_unknown_and_measured_on_the_other(model):
    loaded = Model.load(model)
    unknown = torch.cat([torch.from_numpy(pictures(name, 40, seed=1)) for name in SECOND])
    confidence = loaded.predict_proba(unknown).max(1).values.double()
    found = loaded.acceptance(unknown, false_acceptance=0.1)
    assert (confidence[::2] > found.threshold).double().mean() <= 0.1
    assert (confidence[::2] > found.threshold - 1e-3).double().mean() > 0.05
    passed = (confidence[1::2] > found.threshold).double().mean().item()
    assert found.unknown.percent == pytest.approx(100 * passed)
    assert found.unknown.images == 60
    assert found.unknown.low <= found.unknown.percent <= found.unknown.high
    assert found.known.images == len(loaded.held_out)
    given = loaded.acceptance(unknown, threshold=0.0)
    assert (given.unknown.percent, given.unknown.images) == (100, 120)


def test_a_network_that_is_certain_of_everything_calls_it_all_unknown(model):
    loaded = Model.load(model)
    with torch.no_grad():
        loaded.net.linear.weight *= 1e4
    x = torch.from_numpy(pictures("navy", 8, seed=3))
    found = loaded.acceptance(x)
    assert (found.threshold, found.unknown.percent) == (1, 0)
    assert {each.label for each in loaded.answer(x, threshold=found.threshold)} == {None}


def test_images_of_known_classes_cannot_measure_false_acceptance(refused, model, first, tmp_path):
    for folder in (first, first / "navy", tmp_path):
        refused("predict", model, first, "--unknown", folder, words=["--unknown", "has learned"])


def test_the_command_names_more_classes_all_probabilities_and_the_unknown(bnt, model, tmp_path):
    known = write_folder(tmp_path / "known", FIRST[:1], 3)
    others = write_folder(tmp_path / "others", SECOND, 6)
    done = bnt("predict", model, known, "--top", 2, "--probabilities", "--json")
    assert done.code == 0, done.err
    for answer in json.loads(done.out):
        assert list(answer["probabilities"]) == list(FIRST)
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        best, second = answer["candidates"]
        assert (best["label"], best["probability"]) == (answer["label"], answer["probability"])
        assert best["probability"] >= second["probability"]
    done = bnt("predict", model, known, "--top", 2, "--probabilities", "--csv")
    header, *rows = csv.reader(io.StringIO(done.out))
    assert header[3:5] == ["label 2", "probability 2"]
    assert header[5:] == [f"probability of {name}" for name in FIRST]
    assert {len(row) for row in rows} == {8}
    loaded = Model.load(model)
    loaded.metadata = loaded.metadata.model_copy(update={"with_memory": False})
    loaded.held_out = None
    loaded.save(model)
    done = bnt("predict", model, known, "--threshold", 1, "--unknown", others, "--json")
    given = {(answer["label"], answer["threshold"]) for answer in json.loads(done.out)}
    assert given == {(None, 1)}
    assert "accepts 0.0% (0.0 to 17.6) of the 18 images of unknown classes" in done.err
    done = bnt("predict", model, known, "--threshold", 1, "--top", 2)
    assert done.out.count("unknown") == 3
    assert "no held-out images" in done.err
    assert "is not known: give a folder" in done.err


def test_a_threshold_is_measured_before_it_is_used_and_a_useless_one_is_refused(bnt, model, first):
    done = bnt("predict", model, first, "--threshold", 0, "--json")
    assert "accepts 100.0%" in done.err
    assert len(json.loads(done.out)) == 36
    done = bnt("predict", model, first, "--threshold", 1)
    assert (done.code, done.out) == (2, "")
    assert "useless: it accepts 0.0%" in done.err
    with pytest.raises(UserError, match="only"):
        Acceptance(0.3, unknown=share(torch.ones(9)), known=share(torch.arange(9) > 1)).check()


def test_a_rate_without_images_to_choose_by_is_a_line(refused, model, first):
    (first / "navy" / "bad.png").write_bytes(b"no image, and not to be read before options are")
    words = ["--false-acceptance", "--unknown"]
    refused("predict", model, first, "--false-acceptance", 0.1, words=words)
    refused("predict", model, first, "--threshold", 1.5, words=["1.5"])
