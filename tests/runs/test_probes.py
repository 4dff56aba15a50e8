"""Probes measure what a straight-line twin does, and no run notices that it was looked at."""

import base64
import copy
import io

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from bntricks.errors import RunError, UserError
from bntricks.norm import recalibrate
from bntricks.paper import load_study, study_names
from bntricks.runs import probes
from bntricks.runs.config import Config
from bntricks.runs.describe import describe
from bntricks.runs.folder import resume, run
from bntricks.runs.probes import (
    PROBES,
    first_images,
    looked,
    mixed,
    overlap,
    statistics,
    with_biased_phi,
)
from bntricks.runs.probes.tsne import picture, tsne
from bntricks.runs.record import file as records, maps, phi
from bntricks.runs.train import train
from bntricks.seeds import generator
from bntricks.streams import from_arrays
from bntricks.training.checkpoint import digest

SMALL = {"width": 4, "blocks": 1, "stages": 2, "batch": 8, "memory": 12, "memory_batch": 8}
CONFIG = Config(method="er-bnt", epochs=8, seed=4, lr=0.1, **SMALL)


def a_stream(classes=6, **options):
    """A class is a bright row; two classes a task, seven test images a class."""
    rng = np.random.default_rng(0)

    def images(y):
        x = rng.integers(0, 120, (len(y), 3, 8, 8))
        x[np.arange(len(y)), :, y] += 120
        return x.astype(np.uint8)

    train_y, test_y = np.repeat(np.arange(classes), 20), np.repeat(np.arange(classes), 7)
    arrays = images(train_y), train_y, images(test_y), test_y
    return from_arrays(*arrays, pad=1, flip=True, **options)


STREAM = a_stream()


@pytest.fixture(scope="module")
def outcome():
    return train(CONFIG, STREAM)


@pytest.fixture(scope="module")
def learner(outcome):
    return outcome.learner


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory, learner):
    """The map that the probe of the statistics leaves of the learner."""
    path = tmp_path_factory.mktemp("run") / "map-statistics.json"
    statistics(learner, STREAM, 2, seed=4, path=path)
    return maps.load(path)


def test_biased_statistics_are_the_average_over_100_more_batches_of_the_last_task(learner):
    """A loop over the layers by hand: μ ← 0.9 μ + 0.1 μ_B, for every batch in turn."""
    own = generator(4, "biased φ")
    task, view, net = STREAM[-1].train, learner.state.view, learner.net
    phi = {n: b.clone() for n, b in net.named_buffers() if "tracked" not in n}
    seen = {}
    layers = [(n, m) for n, m in net.named_modules() if isinstance(m, torch.nn.BatchNorm2d)]
    hooks = [
        layer.register_forward_pre_hook(lambda _, x, name=name: seen.update({name: x[0]}))
        for name, layer in layers
    ]
    count = 0
    while count < 100:
        order = torch.randperm(len(task), generator=own)
        for start in range(0, len(order), 8):
            x = view(task.x[order[start : start + 8]], own)
            with torch.no_grad():
                for _, layer in layers:
                    layer.track_running_stats = False
                net(x)
                for _, layer in layers:
                    layer.track_running_stats = True
            for name, x in seen.items():
                values = x.transpose(0, 1).flatten(1).double()
                mean, var = values.mean(1), values.var(1)
                for kind, now in (("mean", mean), ("var", var)):
                    key = f"{name}.running_{kind}"
                    phi[key] = 0.9 * phi[key] + 0.1 * now
            count += 1
    for hook in hooks:
        hook.remove()
    assert count == 100  # 40 images: twenty times five batches

    biased = with_biased_phi(learner, STREAM[-1], generator(4, "biased φ")).net
    buffers = dict(biased.named_buffers())
    for name, value in phi.items():
        assert torch.allclose(buffers[name].double(), value.double(), rtol=1e-4, atol=1e-5), name
        assert not torch.equal(buffers[name], dict(net.named_buffers())[name])
    for one, other in zip(biased.parameters(), net.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_is_lost_and_gained_is_counted_over_all_test_images(learner, looked_at):
    biased = with_biased_phi(learner, STREAM[-1], generator(4, "biased φ"))
    counted = []
    for who in (learner, biased):
        right, late = [0, 0, 0], 0
        for t, task in enumerate(STREAM):
            with torch.no_grad():
                logits = who.net.eval()(learner.state.view(task.test.x, None))
            who.net.train()
            for row, label in zip(logits.tolist(), task.test.y.tolist(), strict=True):
                predicted = row.index(max(row))
                right[t] += predicted == label
                late += predicted in (4, 5)
        counted.append(([100 * r / 14 for r in right], 100 * late / 42))
    (accuracy, share), (biased_accuracy, biased_share) = counted
    measured = looked_at.biased_phi
    assert measured.accuracy == pytest.approx(accuracy)
    assert measured.biased_accuracy == pytest.approx(biased_accuracy)
    assert measured.acc_lost == pytest.approx((sum(accuracy) - sum(biased_accuracy)) / 3)
    assert measured.last_task_gained == pytest.approx(biased_share - share)
    assert measured.accuracy != measured.biased_accuracy
    assert measured.share != measured.biased_share


def test_the_two_panels_show_the_same_images_with_each_ones_predictions(learner, looked_at):
    biased = with_biased_phi(learner, STREAM[-1], generator(4, "biased φ"))
    images = torch.cat([task.test.x for task in STREAM])
    assert looked_at.labels == tuple(label for label in range(6) for _ in range(7))
    assert looked_at.class_names == ("0", "1", "2", "3", "4", "5")
    own, other = looked_at.panels
    assert (own.name, other.name) == ("balanced", "biased")
    assert list(own.predicted) == learner.predict(images).tolist()
    assert list(other.predicted) == biased.predict(images).tolist()
    assert (own.x, own.y) != (other.x, other.y)


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_moves_nothing_of_the_learner_and_none_of_its_generators(name, tmp_path, learner):
    before, world = digest(learner.state_dict()), torch.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    flags = [(m.training, getattr(m, "track_running_stats", None)) for m in learner.net.modules()]
    for index in range(3):
        probes.probe(name, tmp_path, 4)(learner, STREAM, index)
    assert maps.path_in(tmp_path, name).exists()
    assert digest(learner.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), world)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
    assert flags == [
        (m.training, getattr(m, "track_running_stats", None)) for m in learner.net.modules()
    ]


def test_a_nearest_mean_classifier_is_asked_with_the_means_of_its_own_statistics():
    """Class means that were made under one φ are of no use under another."""
    learner = train(CONFIG.model_copy(update={"method": "icarl", "epochs": 1}), STREAM).learner
    learner.predict(STREAM[0].test.x)
    biased = with_biased_phi(learner, STREAM[-1], generator(4, "biased φ"))
    scores = biased.scores(STREAM[0].test.x)
    means = [
        biased.state.features(learner.memory.x[: learner.memory.filled])[
            learner.memory.y[: learner.memory.filled] == label
        ].mean(0)
        for label in range(6)
    ]
    distance = torch.cdist(biased.state.features(STREAM[0].test.x), torch.stack(means)) ** 2
    assert torch.allclose(scores, -distance, rtol=1e-3, atol=1e-4)


def test_overlap_is_seen_before_the_third_task_and_after_it(tmp_path):
    path = tmp_path / "map-overlap.json"
    stream, seen = a_stream(8), {}

    def watching(learner, stream, index):
        overlap(learner, stream, index, seed=4, path=path)
        features = maps.load(path)
        seen[index] = None if features is None else [panel.name for panel in features.panels]
        if index == 1:
            first = first_images(stream[:3])
            seen["before"] = tuple(learner.predict(first.x).tolist())

    train(CONFIG, stream, probe=watching)
    whole = ["before", "after"]
    assert [seen[i] for i in range(4)] == [None, ["before"], whole, whole]
    features = maps.load(path)
    assert features.task == 3
    assert set(features.labels) == set(range(6))
    assert features.panel("before").predicted == seen["before"]
    assert features.panel("after").predicted != seen["before"]


def test_a_second_panel_begins_from_the_places_of_the_first(tmp_path, monkeypatch, learner):
    begun = []

    def placing(features, seed, start=None):
        begun.append(None if start is None else start.tolist())
        return np.full((len(features), 2), [seed, len(begun)], dtype=float)

    monkeypatch.setattr(probes, "tsne", placing)
    statistics(learner, STREAM, 2, seed=4, path=tmp_path / "one.json")
    for index in (1, 2):
        overlap(learner, STREAM, index, seed=4, path=tmp_path / "other.json")
    assert begun == [None, [[4, 1]] * 42, None, [[4, 3]] * 42]


@pytest.mark.parametrize(("classes", "panels"), [(4, ["before", "after"]), (2, ["after"])])
def test_with_fewer_tasks_the_last_plays_the_third(classes, panels, tmp_path):
    stream = a_stream(classes)
    config = CONFIG.model_copy(update={"epochs": 1})
    outcome = train(config, stream, probe=probes.probe("overlap", tmp_path, 4))
    features = maps.load(maps.path_in(tmp_path, "overlap"))
    assert [panel.name for panel in features.panels] == panels
    assert features.task == classes // 2
    assert looked("overlap", describe(config, stream, outcome), tmp_path, stream)


def test_a_damaged_or_missing_first_panel_does_not_stop_the_run(tmp_path, outcome):
    record = describe(CONFIG, STREAM, outcome)
    path = maps.path_in(tmp_path, "overlap")
    for damage in (None, "{"):
        if damage is not None:
            path.write_text(damage)
        overlap(outcome.learner, STREAM, 2, seed=4, path=path)
        assert [panel.name for panel in maps.load(path).panels] == ["after"]
        assert not looked("overlap", record, tmp_path, STREAM)


def test_images_are_the_first_of_each_class_and_bounded_in_number(monkeypatch):
    monkeypatch.setattr(probes, "IMAGES_PER_CLASS", 3)
    images = first_images(STREAM)
    assert images.y.tolist() == [label for label in range(6) for _ in range(3)]
    assert torch.equal(images.x[3:6], STREAM[0].test.x[7:10])
    monkeypatch.setattr(probes, "IMAGES", 13)
    assert first_images(STREAM).y.tolist() == [label for label in range(6) for _ in range(2)]
    monkeypatch.setattr(probes, "IMAGES", 2)
    assert len(first_images(STREAM)) == 6


DIGITS = Config(method="er-bnt", stream="seq-digits", images_per_class=12, epochs=1, **SMALL)
OF_THE_CLOCK = {"seconds", "finished", "images_per_second", "peak_memory_mb"}
OF_THE_CLOCK |= {"path", "already_there"}


@pytest.fixture
def few_points(monkeypatch):
    monkeypatch.setattr(probes, "IMAGES_PER_CLASS", 4)


def kept(record):
    return {key: value for key, value in record.to_json().items() if key not in OF_THE_CLOCK}


@pytest.mark.usefixtures("few_points")
def test_a_run_is_looked_at_once_and_its_record_is_the_same_but_for_what_was_seen(tmp_path):
    plain = run(DIGITS, out=tmp_path)
    seen = run(DIGITS, out=tmp_path, probe="statistics")
    assert not seen.already_there
    assert {**kept(plain), "biased_phi": kept(seen)["biased_phi"]} == kept(seen)
    assert seen.biased_phi.accuracy == seen.accuracy[-1]
    assert seen.biased_phi.acc == seen.acc
    again = run(DIGITS, out=tmp_path, probe="statistics")
    assert again.already_there
    assert again.biased_phi == seen.biased_phi
    assert run(DIGITS, out=tmp_path).already_there

    (path,) = tmp_path.glob("*/map-statistics.json")
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert not run(DIGITS, out=tmp_path, probe="statistics").already_there
    assert path.read_text() == whole  # the same seed, the same coordinates
    forced = run(DIGITS, out=tmp_path, force=True)
    assert forced.biased_phi is None
    assert not path.exists()


def test_accuracy_under_other_statistics_is_that_of_the_network_with_them(learner, tmp_path):
    probes.probe("phi", tmp_path, 4)(learner, STREAM, 2)
    measured = phi.load(maps.path_in(tmp_path, "phi"))

    def accuracy(x, tasks):
        net = copy.deepcopy(learner.net)
        recalibrate(net, [learner.view(x, None)])
        other = learner.with_net(net)
        hits = [(other.predict(t.test.x) == t.test.y).float().mean().item() for t in tasks]
        return 100 * sum(hits) / len(hits)

    memory = learner.memory
    own = [accuracy(task.train.x, [task]) for task in STREAM]
    assert measured.memory_acc == pytest.approx(accuracy(memory.x[: len(memory)], STREAM))
    every = torch.cat([task.train.x for task in STREAM])
    assert measured.oracle_acc == pytest.approx(accuracy(every, STREAM))
    assert measured.task_acc == pytest.approx(sum(own) / len(own))
    assert measured.oracle_gain == pytest.approx(measured.oracle_acc - measured.acc)


def by_nearest_mean(net, view):
    """ACC by the nearest mean feature of the 20 training images of each class."""

    def features(x):
        with torch.no_grad():
            return net.eval().features(view(x, None))

    means = [features(t.train.x[t.train.y == c]).mean(0) for t in STREAM for c in t.classes]
    hits = []
    for task in STREAM:
        near = [min(range(6), key=lambda c: (f - means[c]).norm()) for f in features(task.test.x)]
        hits.append(
            sum(a == b for a, b in zip(near, task.test.y.tolist(), strict=True)) / len(near)
        )
    net.train()
    return 100 * sum(hits) / len(hits)


def test_accuracy_by_share_is_that_of_the_network_recalibrated_on_each_mixture(
    learner, tmp_path, monkeypatch
):
    count = len(STREAM[-1].train)
    drawn = []

    def recorded(old, new, share, random):
        assert (old, new) == (2 * count, count)
        parts = list(mixed(old, new, share, random))
        drawn.append((share, parts))
        return parts

    monkeypatch.setattr(probes, "mixed", recorded)
    probes.probe("phi", tmp_path, 4)(learner, STREAM, 2)
    measured = phi.load(maps.path_in(tmp_path, "phi"))
    every = torch.cat([task.train.x for task in STREAM])
    assert [at.share for at in measured.by_share] == [share for share, _ in drawn]
    for at, (share, parts) in zip(measured.by_share, drawn, strict=True):
        assert {int((part >= 2 * count).sum()) for part in parts} == {round(256 * share)}
        assert all(part.min() >= 0 and part.max() < 3 * count for part in parts)
        net = copy.deepcopy(learner.net)
        recalibrate(net, [learner.view(every[part], None) for part in parts])
        other = learner.with_net(net)
        *old, newest = [
            100 * (other.predict(t.test.x) == t.test.y).double().mean().item() for t in STREAM
        ]
        assert (at.old, at.newest) == pytest.approx((sum(old) / 2, newest))
        assert at.acc == pytest.approx((sum(old) + newest) / 3)
        assert at.tasks == pytest.approx((*old, newest))
        assert at.nearest_mean == pytest.approx(by_nearest_mean(other.net, learner.view))
    first, last = measured.by_share[0], measured.by_share[-1]
    assert measured.acc_change == pytest.approx(last.acc - first.acc) != 0
    assert measured.old_change == pytest.approx(last.old - first.old)
    assert measured.nearest_mean_change == pytest.approx(last.nearest_mean - first.nearest_mean)


def test_without_old_tasks_or_running_statistics_there_are_no_shares(tmp_path):
    single = run(DIGITS.model_copy(update={"classes_per_task": 10}), out=tmp_path, probe="phi")
    batch_free = run(
        DIGITS.model_copy(update={"norm": "gn", "method": "er"}), out=tmp_path, probe="phi"
    )
    assert single.phi.by_share is None
    assert batch_free.phi.by_share is None
    assert batch_free.phi.oracle_acc == batch_free.phi.memory_acc == batch_free.acc


def test_what_phi_costs_is_in_the_record_and_a_record_without_it_is_valid(tmp_path):
    record = run(DIGITS, out=tmp_path, probe="phi")
    assert record.phi.acc == pytest.approx(record.acc)
    assert records.read(record.path / records.NAME).phi == record.phi
    assert record.value("phi.oracle_gain") == record.phi.oracle_gain
    maps.path_in(record.path, "phi").unlink()  # a record is all that is passed on
    assert run(DIGITS, out=tmp_path, probe="phi").already_there
    without = run(DIGITS, out=tmp_path / "other")
    assert not run(DIGITS, out=tmp_path / "other", probe="phi").already_there
    assert "phi" not in without.to_json()
    assert without.digest == record.digest
    with pytest.raises(ValidationError, match="oracle_gain does not follow"):
        phi.PhiAccuracies(acc=50.0, oracle_acc=60.0, task_acc=70.0, oracle_gain=5.0)


@pytest.mark.usefixtures("few_points")
def test_a_run_that_goes_on_later_is_still_looked_at(tmp_path, monkeypatch):
    whole = run(DIGITS, out=tmp_path / "whole", probe="overlap")

    def until_the_third(learner, stream, index, **how):
        overlap(learner, stream, index, **how)
        if index == 1:
            raise KeyboardInterrupt

    monkeypatch.setitem(PROBES, "overlap", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(DIGITS, out=tmp_path / "halves", probe="overlap")
    monkeypatch.setitem(PROBES, "overlap", overlap)
    (folder,) = (tmp_path / "halves").iterdir()
    later = resume(folder)
    assert kept(later) == kept(whole)
    one, other = (path.read_text() for path in tmp_path.glob("*/*/map-overlap.json"))
    assert one == other


def test_every_probe_of_a_study_exists_and_an_unknown_one_is_named(tmp_path):
    requested = {study.probe for study in map(load_study, study_names())}
    assert requested == {None, *PROBES}
    with pytest.raises(
        UserError, match="probe x-ray: input should be 'phi', 'statistics' or 'overlap'"
    ):
        run(DIGITS, out=tmp_path, probe="x-ray")
    assert not list(tmp_path.iterdir())


def test_tsne_parts_what_is_apart_and_repeats_itself():
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    x[15:] += 30
    points = tsne(x, 0)
    assert np.array_equal(points, tsne(x, 0))
    one, other = points[:15], points[15:]
    gap = np.linalg.norm(one.mean(0) - other.mean(0))
    assert gap > 2 * max(part.std(0).max() for part in (one, other))


def test_a_later_map_begins_where_the_earlier_one_was():
    own = torch.Generator().manual_seed(0)
    groups = 3 * torch.randn(4, 16, generator=own).repeat_interleave(8, 0)
    start = tsne(groups + torch.randn(32, 16, generator=own), 0)
    start -= start.mean(0)
    for begin in (start, start @ np.array([[0.0, 1.0], [-1.0, 0.0]])):
        later = tsne(groups + torch.randn(32, 16, generator=own), 0, begin)
        later -= later.mean(0)
        nearness = (later * begin).sum() / np.sqrt((later**2).sum() * (begin**2).sum())
        assert nearness > 0.9


@pytest.mark.parametrize("shape", [(2, 5), (3, 1), (12, 1), (12, 3)])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_few_points_few_dimensions_and_points_all_alike_still_have_places(shape, spread):
    x = spread * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    points = tsne(x, 0)
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()


def test_features_that_are_not_finite_have_no_map():
    with pytest.raises(RunError, match="not finite"):
        tsne(torch.full((5, 3), torch.nan), 0)


@pytest.mark.parametrize(("channels", "mode"), [(3, "RGB"), (1, "L"), (2, "L")])
def test_pictures_are_small_and_show_the_pixels(channels, mode):
    image = torch.arange(channels * 64, dtype=torch.uint8).reshape(channels, 8, 8)
    shown = Image.open(io.BytesIO(base64.b64decode(picture(image).split(",")[1])))
    assert (shown.size, shown.mode) == ((8, 8), mode)
    if channels == 3:
        assert shown.getpixel((1, 0)) == (1, 65, 129)
    large = torch.zeros(3, 64, 48, dtype=torch.uint8)
    assert Image.open(io.BytesIO(base64.b64decode(picture(large).split(",")[1]))).size == (24, 32)
