"""How labels are read off: the nearest class mean is the nearest one in float32 too."""

import pytest
import torch

from bntricks.recipes.classifiers import MeanHead, squared_distances

pytestmark = pytest.mark.law


@pytest.mark.parametrize("offset", [0.0, 20.0, 1000.0])
def test_a_large_mean_that_all_features_share_moves_no_label(offset):
    generator = torch.Generator().manual_seed(0)
    means = offset + 0.2 * torch.randn(10, 512, generator=generator)
    features = offset + 0.2 * torch.randn(4000, 512, generator=generator)
    exact = torch.cdist(features.double(), means.double()).square()
    assert torch.equal(squared_distances(features, means).argmin(1), exact.argmin(1))
    assert torch.allclose(squared_distances(features, means).double(), exact, rtol=1e-4)


def test_the_exported_head_scores_alike():
    generator = torch.Generator().manual_seed(0)
    means = 20 + 0.2 * torch.randn(3, 64, generator=generator)
    features = 20 + 0.2 * torch.randn(50, 64, generator=generator)
    classes = torch.tensor([4, 0, 2])
    scores = MeanHead(classes, means, outputs=5)(features)
    assert torch.allclose(scores[:, classes], -squared_distances(features, means), rtol=1e-4)
    assert scores[:, [1, 3]].isneginf().all()
