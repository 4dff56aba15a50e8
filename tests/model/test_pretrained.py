"""A model on a frozen trunk: one pass over the images, nothing forgotten, no image kept."""

import json

import numpy as np
import pytest
import safetensors.torch as safe
import torch

from bntricks import Model, UserError
from bntricks.model.heads import accuracy
from bntricks.streams.files.image import Square
from helpers.backbones import WIDTH, begun, knowing
from helpers.colours import FIRST, SECOND, pictures, write_folder
from model.test_hostile_files import rewritten

EVERY = (*FIRST, *SECOND)


@pytest.fixture
def known():
    return knowing(FIRST)


def unseen(names=EVERY, each=10):
    return torch.cat([torch.from_numpy(pictures(name, each, seed=5)) for name in names])


def test_classes_are_told_apart_by_features_alone(known):
    learned = known.learn({name: pictures(name) for name in SECOND})
    assert learned.all.after > 90
    assert learned.losses == ()
    right = [
        name == answer
        for name, answer in zip(np.repeat(EVERY, 10), known.predict(unseen()), strict=True)
    ]
    assert np.mean(right) > 0.9


def test_neither_theta_nor_phi_of_the_trunk_moves(known):
    before = {k: v.clone() for k, v in known.net.state_dict().items() if not k.startswith("6.")}
    known.learn({name: pictures(name) for name in SECOND})
    after = known.net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not known.net.training


@pytest.mark.law
def test_the_order_of_lessons_does_not_matter():
    models = [begun(), begun()]
    for model, order in zip(models, (EVERY, EVERY[::-1]), strict=True):
        for name in order:
            model.learn({name: pictures(name)})
    one, other = models
    order = [other.classes.index(name) for name in one.classes]
    mine, theirs = one.frozen.statistics, other.frozen.statistics
    assert torch.equal(mine.counts, theirs.counts[order])
    torch.testing.assert_close(mine.means, theirs.means[order], rtol=0, atol=1e-12)
    torch.testing.assert_close(mine.scatter, theirs.scatter, rtol=1e-12, atol=1e-12)
    own, others = (torch.tensor(sorted(m.frozen.tests.x.tolist())) for m in models)
    assert torch.equal(own, others)


@pytest.mark.parametrize("chosen", ["lda", "means", "linear"])
def test_the_best_head_on_held_out_images_serves_and_the_others_are_told(
    known, monkeypatch, chosen
):
    def rated(layer, tests):
        own = {"lda": 0.5, "means": 0.5, "linear": 0.5} | {chosen: 1.0}
        return (own[next(names)],) * 2

    names = iter(["lda", "means", "linear"])
    monkeypatch.setattr("bntricks.model.pretrained.parts_right", rated)
    learned = known.learn({name: pictures(name) for name in SECOND})
    assert set(learned.heads) == {"lda", "means", "linear"}
    assert learned.head == chosen
    assert known.metadata.backbone.head == learned.head
    served = (known.net[6].weight.detach(), known.net[6].bias.detach())
    assert accuracy(served, known.frozen.tests) == pytest.approx(learned.heads[learned.head])
    assert learned.all.after == pytest.approx(learned.heads[learned.head], abs=1e-4)


def test_the_memory_bounds_the_features_that_are_stored_evenly(known):
    known.learn({name: pictures(name) for name in SECOND})
    assert torch.bincount(known.frozen.stored.y).tolist() == [4] * 6
    assert known.frozen.stored.x.dtype == torch.float16


def test_a_file_holds_no_image_and_predicts_and_learns_on_the_same(known, tmp_path):
    known.save(tmp_path / "m")
    tensors = safe.load_file(tmp_path / "m")
    assert not any(tensor.dtype == torch.uint8 and tensor.dim() > 1 for tensor in tensors.values())
    again = Model.load(tmp_path / "m")
    assert torch.equal(again.scores(unseen()), known.scores(unseen()))
    for model in (known, again):
        model.learn({name: pictures(name) for name in SECOND})
    assert torch.equal(again.scores(unseen()), known.scores(unseen()))
    assert torch.equal(again.frozen.stored.x, known.frozen.stored.x)


def test_without_features_it_predicts_and_refuses_the_same_but_learns_no_more(known, tmp_path):
    known.save(tmp_path / "m", memory=False)
    names = {name.partition(".")[0] for name in safe.load_file(tmp_path / "m")}
    assert names == {"net", "statistics", "known"}
    again = Model.load(tmp_path / "m")
    assert again.answer(unseen(), threshold=0.2) == known.answer(unseen(), threshold=0.2)
    with pytest.raises(UserError, match="without its memory"):
        again.learn({name: pictures(name) for name in SECOND})


def test_images_that_were_seen_before_are_not_counted_again(known):
    counts = known.frozen.statistics.counts.clone()
    with pytest.raises(UserError, match="has all these images already"):
        known.learn({"navy": pictures("navy")}, more=True)
    grown = np.concatenate([pictures("navy"), pictures("navy", 8, seed=1)])
    known.learn({"navy": grown}, more=True)
    added = known.frozen.statistics.counts - counts
    assert added[list(FIRST).index("navy")] == 6  # of 8, of which 2 are held out
    assert added.sum() == 6
    with pytest.raises(UserError, match="knows 'navy' already"):
        known.learn({"navy": pictures("navy", seed=2)})


def test_a_class_is_removed_with_all_that_is_known_of_its_images(known, tmp_path):
    before = known.scores(unseen())
    known.remove([FIRST[1]])
    assert torch.equal(known.scores(unseen()), before[:, [0, 2]])
    frozen = known.frozen
    for part in (frozen.stored, frozen.tests, frozen.seen):
        assert set(part.y.tolist()) == {0, 1}
    known.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    again.learn({FIRST[1]: pictures(FIRST[1])})  # its images are new again
    assert again.frozen.statistics.counts.tolist() == [10, 10, 10]


def test_a_threshold_is_the_share_of_known_images_that_it_refuses(known):
    tests = known.frozen.tests
    for threshold in (0.0, 0.25, 0.5):
        passed = known.acceptance(threshold=threshold)
        assert passed.unknown is None
        assert passed.known.percent == pytest.approx(100 * (1 - threshold), abs=100 / len(tests))
    odd = known.acceptance(unseen(["white [bold]"]), threshold=0.1)
    assert odd.unknown.percent < odd.known.percent
    answers = known.answer(unseen(), threshold=0.3)
    assert all((each.label is None) == (each.confidence <= 0.3) for each in answers)


def test_it_knows_nothing_of_unknown_images_if_nothing_was_held_out(tmp_path):
    model = begun()
    model.learn({name: pictures(name) for name in FIRST}, held_out=0)
    with pytest.raises(UserError, match="nothing was held out"):
        model.answer(unseen(), threshold=0.1)
    with pytest.raises(UserError, match="nothing was held out"):
        model.export(tmp_path / "m.pt2", threshold=0.1)
    assert model.predict(unseen(["navy"])) == ["navy"] * 10


def test_a_lesson_that_fails_leaves_the_model_as_it_was(known, tmp_path):
    before, frozen = known.scores(unseen()), known.frozen
    folder = write_folder(tmp_path / "new", SECOND, 3)
    (folder / SECOND[-1] / "bad.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"bad\.png"):
        known.learn(folder)
    assert torch.equal(known.scores(unseen()), before)
    assert known.frozen is frozen
    learned = known.learn(folder, skip_unreadable=True)
    assert len(learned.unreadable) == 1


def test_a_folder_is_never_in_memory_as_a_whole(known, tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.streams.files.image.BLOCK_BYTES", 4 * 3 * 8 * 8)
    sizes, features = [], known.learner.state.features
    monkeypatch.setattr(
        known.learner.state, "features", lambda x: sizes.append(len(x)) or features(x)
    )
    known.learn(write_folder(tmp_path / "new", SECOND))
    assert sum(sizes) == 36
    assert max(sizes) == 4


def test_images_are_prepared_as_the_weights_say_or_by_name():
    assert begun().metadata.square == Square(8)
    own = begun(image_size=16, crop=0.5, interpolation="bicubic", mean=(0.5,) * 3, augment=False)
    assert own.metadata.square == Square(16, 0.5, "bicubic")
    assert own.metadata.view.mean == (0.5,) * 3
    assert own.metadata.view.std == (0.2, 0.3, 0.4)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"epochs": 3}, "frozen trunk is not trained"),
        ({"lr": 0.1}, "frozen trunk is not trained"),
        ({"tune": True}, "begin a model that keeps images"),
        ({"held_out": 1.0}, "share of each class"),
    ],
)
def test_what_a_frozen_trunk_has_no_use_for_is_refused(known, how, words):
    with pytest.raises(UserError, match=words):
        known.learn({name: pictures(name) for name in SECOND}, **how)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"width": 4}, "width"),
        ({"crop": 0.0}, "crop"),
        ({"interpolation": "nearest"}, "interpolation"),
        ({"std": (0.0, 1.0, 1.0)}, "std"),
    ],
)
def test_options_of_a_new_model_are_checked(how, words):
    with pytest.raises((UserError, TypeError), match=words):
        begun(**how)


def test_weights_from_a_file_come_with_their_own_preparation(tmp_path):
    net = begun().net
    state = {k: v.contiguous() for k, v in net.state_dict().items() if k != "6.bias"}
    state["6.weight"] = torch.zeros(7, WIDTH)
    safe.save_file(state, tmp_path / "w")
    with pytest.raises(UserError, match="how images are prepared for these weights"):
        begun(weights=tmp_path / "w")
    how = {"image_size": 8, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    assert torch.equal(begun(weights=tmp_path / "w", **how).net[0].weight, net[0].weight)


def keeping():
    model = begun(keep_images=True, memory=40)
    model.learn({name: pictures(name, 30) for name in FIRST})
    return model


@pytest.mark.parametrize("chosen", ["trained", "lda"])
def test_a_tuned_trunk_serves_if_it_is_better(tmp_path, monkeypatch, chosen):
    monkeypatch.setattr("bntricks.model.tune.better", lambda default, accuracy: chosen)
    model, x = keeping(), unseen()
    before = model.net[0].weight.clone()
    learned = model.learn({name: pictures(name, 30) for name in SECOND}, tune=True, epochs=8)
    assert list(learned.tuning.accuracy) == ["frozen", "trained", "lda", "means", "linear"]
    assert learned.head == model.metadata.backbone.head == chosen
    assert model.metadata.backbone.tuned
    assert not torch.equal(model.net[0].weight, before)
    assert learned.all.after == pytest.approx(
        sum(learned.tuning.accuracy[chosen]) / 2, abs=100 / len(model.frozen.tests)
    )
    model.save(tmp_path / "m")
    again = Model.load(tmp_path / "m")
    assert torch.equal(again.scores(x), model.scores(x))
    own = model.learner.state.features(model.frozen.test_images).half()
    torch.testing.assert_close(model.frozen.tests.x, own)  # features that have not expired
    assert again.frozen.stored_images.shape == (40, 3, 8, 8)
    again.remove(["navy"])
    assert len(again.frozen.stored_images) == len(again.frozen.stored)
    again.learn({"navy": pictures("navy", 30)})
    assert len(again.frozen.stored_images) == len(again.frozen.stored)


def test_a_tuned_trunk_that_is_no_better_does_not_serve():
    model = keeping()
    before = {k: v.clone() for k, v in model.net.state_dict().items() if not k.startswith("6.")}
    learned = model.learn({"黒": pictures("黒", 30)}, tune=True, epochs=1, lr=1e-9)
    assert learned.tuning.chosen == "frozen"
    after = model.net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not model.metadata.backbone.tuned


def test_a_part_of_the_trunk_is_tuned_from_a_module_on(monkeypatch):
    monkeypatch.setattr("bntricks.model.tune.better", lambda default, accuracy: "trained")
    model = keeping()
    before = {k: v.clone() for k, v in model.net.state_dict().items()}
    model.learn({"黒": pictures("黒", 30)}, tune_from="1", epochs=1)
    after = model.net.state_dict()
    assert torch.equal(after["0.weight"], before["0.weight"])
    assert not torch.equal(after["1.weight"], before["1.weight"])
    assert all(each.requires_grad for each in model.net.parameters())
    with pytest.raises(UserError, match="no such part: it has 0, 1, 2"):
        model.learn({"white [bold]": pictures("white [bold]", 30)}, tune_from="layer4")


def test_tuning_that_fails_leaves_the_model_as_it_was(monkeypatch):
    model = keeping()
    frozen, before = model.frozen, model.scores(unseen(["navy"]))
    monkeypatch.setattr("bntricks.model.tune.settle_phi", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.learn({"黒": pictures("黒", 30)}, tune=True, epochs=1)
    assert model.frozen is frozen
    assert model.classes == FIRST
    assert torch.equal(model.scores(unseen(["navy"])), before)


def test_the_card_names_the_backbone_and_its_licence(known):
    card = known.card()
    assert "tiny, pretrained and frozen" in card
    assert "MIT" in card
    assert "the middle 100% of the centre square's side" in card
    assert "fits the held-out images" in card


HOSTILE = {
    "a place of code": (
        lambda about, tensors: about["backbone"].update(name="os:system"),
        "unknown backbone",
    ),
    "a place that weights come from": (
        lambda about, tensors: about["backbone"].update(name="timm:hf-hub:x/y"),
        "timm: and the name of a network there",
    ),
    "an unknown head": (
        lambda about, tensors: about["backbone"].update(head="exec"),
        "head",
    ),
    "features of another network": (
        lambda about, tensors: tensors.update({"stored.features": torch.zeros(24, 5).half()}),
        "features of",
    ),
    "features that are no numbers": (
        lambda about, tensors: tensors["tests.features"].fill_(torch.nan),
        "features of",
    ),
    "statistics of another network": (
        lambda about, tensors: tensors.update({"statistics.half": torch.zeros(3).double()}),
        "statistics of other classes",
    ),
    "negative counts": (
        lambda about, tensors: tensors["statistics.counts"].neg_(),
        "statistics that no images have",
    ),
    "no scores of known images": (
        lambda about, tensors: tensors.pop("known.highest"),
        "known.highest",
    ),
    "labels out of range": (lambda about, tensors: tensors["seen.labels"].fill_(9), "labels"),
}


@pytest.fixture(scope="module")
def frozen_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("frozen") / "m.safetensors"
    knowing(FIRST).save(path)
    return path.read_bytes()


@pytest.mark.fault
@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_was_tampered_with_is_refused_in_a_line(frozen_file, tmp_path, what):
    change, words = HOSTILE[what]
    path = tmp_path / "m.safetensors"
    path.write_bytes(frozen_file)
    rewritten(path, change)
    with pytest.raises(UserError, match=words) as refusal:
        Model.load(path)
    assert len(str(refusal.value).splitlines()) == 1


def exported(model, tmp_path, threshold):
    model.export(tmp_path / "m.pt2", threshold=threshold)
    extra = {"classes.json": "", "model.json": ""}
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra)
    assert json.loads(extra["classes.json"]) == list(model.classes)
    assert json.loads(extra["model.json"])["threshold"] == threshold
    return program.module()(unseen())


@pytest.mark.slow
def test_trunk_head_and_threshold_are_exported_as_one_graph(known, tmp_path):
    scores, probabilities, accepted = exported(known, tmp_path, 0.3)
    torch.testing.assert_close(scores, known.scores(unseen()), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(probabilities, known.predict_proba(unseen()), rtol=0, atol=1e-4)
    labels = [each.label for each in known.answer(unseen(), threshold=0.3)]
    assert [bool(own) for own in accepted] == [label is not None for label in labels]
