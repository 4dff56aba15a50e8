"""Heads on fixed features: the same as scikit-learn's, and the same in any order of lessons."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

from bntricks.model.heads import (
    Statistics,
    accuracy,
    all_layers,
    balanced_layer,
    calibrated,
    discriminant,
)
from bntricks.streams import Images

CLASSES, WIDTH = 4, 6


def gaussians(each=40, seed=0, classes=CLASSES):
    """Features of overlapping classes, in the order of a shuffled stream."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat_interleave(each)
    means = 2 * torch.randn(classes, WIDTH, generator=torch.Generator().manual_seed(9))
    shape = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(8))
    x = means[y] + torch.randn(len(y), WIDTH, generator=generator) @ shape
    order = torch.randperm(len(y), generator=generator)
    return Images(x[order], y[order])


def learned(parts, classes=CLASSES):
    statistics = Statistics.empty(WIDTH)
    for part in parts:
        statistics = statistics.added(part, classes)
    return statistics


def of(images, rows):
    return Images(images.x[rows], images.y[rows])


@pytest.mark.law
@pytest.mark.parametrize("seed", range(3))
def test_no_order_of_images_or_lessons_matters(seed):
    images, random = gaussians(), np.random.default_rng(seed)
    whole = learned([images])
    by_class = [of(images, images.y == label) for label in random.permutation(CLASSES)]
    cuts = np.sort(random.choice(len(images), 9, replace=False))
    shuffled = random.permutation(len(images))
    in_pieces = [of(images, torch.from_numpy(rows)) for rows in np.split(shuffled, cuts)]
    for parts in (by_class, in_pieces):
        again = learned(parts)
        assert torch.equal(again.counts, whole.counts)
        assert again.freedom == whole.freedom == len(images) - CLASSES
        torch.testing.assert_close(again.means, whole.means, rtol=0, atol=1e-12)
        torch.testing.assert_close(again.scatter, whole.scatter, rtol=1e-12, atol=1e-9)


@pytest.mark.reference
def test_sums_are_those_of_numpy():
    images = gaussians()
    statistics = learned([of(images, images.y < 2), of(images, images.y >= 2)])
    x, y = images.x.double().numpy(), images.y.numpy()
    means = np.stack([x[y == label].mean(0) for label in range(CLASSES)])
    assert np.allclose(statistics.means, means)
    centred = x - means[y]
    assert np.allclose(statistics.scatter, centred.T @ centred)


@pytest.mark.reference
@pytest.mark.parametrize("shrinkage", [0.1, 0.5])
def test_lda_is_that_of_scikit_learn(shrinkage):
    images, new = gaussians(), gaussians(seed=1)
    weight, bias = discriminant(learned([images]), shrinkage)
    own = F.linear(new.x.double(), weight, bias)
    equal = [1 / CLASSES] * CLASSES
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=equal)
    theirs.fit(images.x.double().numpy(), images.y.numpy())
    scores = torch.from_numpy(theirs.decision_function(new.x.double().numpy()))
    scores *= (len(images) - CLASSES) / len(images)  # they divide by all images
    differences = own - scores
    torch.testing.assert_close(differences, differences[:, :1].expand_as(differences))


def test_lda_that_is_shrunk_by_all_is_the_nearest_mean():
    images, new = gaussians(), gaussians(seed=1)
    layer = discriminant(learned([images]), 1.0)
    theirs = NearestCentroid().fit(images.x.numpy(), images.y.numpy()).predict(new.x.numpy())
    assert F.linear(new.x.double(), *layer).argmax(1).tolist() == theirs.tolist()


@pytest.mark.reference
def test_the_linear_layer_is_scikit_learns_balanced_logistic_regression():
    whole = gaussians()
    images = of(whole, (whole.y > 0) | (torch.arange(len(whole)) % 4 == 0))  # one class is rare
    weight, bias = balanced_layer(images, CLASSES)
    theirs = LogisticRegression(class_weight="balanced", max_iter=2000, tol=1e-8)
    theirs.fit(images.x.numpy(), images.y.numpy())
    assert np.abs(weight.numpy() - theirs.coef_).max() < 0.01
    assert np.abs((bias - bias.mean()).numpy() - theirs.intercept_).max() < 0.02


def test_the_highest_score_is_lower_far_from_all_classes():
    images = gaussians()
    weight, bias = discriminant(learned([images]), 0.5)
    centre = images.x.double().mean(0, keepdim=True)
    near = F.linear(images.x.double(), weight, bias).amax(1)
    assert F.linear(centre, weight, bias).amax() < near.quantile(0.05)


def test_calibration_changes_probabilities_and_no_answer():
    images, tests = gaussians(), gaussians(seed=1)
    layer = tuple(50 * part for part in balanced_layer(images, CLASSES))
    own = calibrated(layer, tests)
    before, after = (F.linear(tests.x, *each) for each in (layer, own))
    assert torch.equal(before.argmax(1), after.argmax(1))
    assert F.cross_entropy(after, tests.y) < F.cross_entropy(before, tests.y)


def test_heads_are_made_of_what_there_is():
    images, none = gaussians(), of(gaussians(), slice(0))
    statistics = learned([images])
    assert list(all_layers(statistics, images, images)) == ["lda", "means", "linear"]
    assert list(all_layers(statistics, of(images, images.y < 3), none)) == ["lda", "means"]
    one = learned([of(images, images.y == 0)], classes=1)
    assert list(all_layers(one, of(images, images.y == 0), none)) == ["lda", "means"]
    same = Images(torch.ones(8, WIDTH), torch.arange(8) % 2)  # no variance at all
    layers = all_layers(learned([same], classes=2), same, same)
    assert all(part.isfinite().all() for layer in layers.values() for part in layer)


def test_every_class_counts_the_same_in_an_accuracy():
    tests = Images(torch.eye(2)[[0, 0, 0, 0, 1]], torch.tensor([0, 0, 0, 0, 0]))
    tests = Images(torch.cat([tests.x, torch.eye(2)[[1]]]), torch.cat([tests.y, torch.tensor([1])]))
    assert accuracy((torch.eye(2), torch.zeros(2)), tests) == pytest.approx(90)
