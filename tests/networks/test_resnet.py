"""The stem for large images, and the paper's, which stays as it was."""

import pytest
import torch

from bntricks import Model
from bntricks.networks.folded import Folded
from bntricks.networks.resnet import ResNet


@pytest.mark.parametrize(("side", "stem"), [(64, "cifar"), (72, "imagenet")])
def test_images_above_64_pixels_get_imagenets_stem_and_come_back_from_the_file(
    tmp_path, side, stem
):
    x = torch.randint(256, (6, 3, side, side), dtype=torch.uint8)
    model = Model.create((x, "aaabbb"), width=4, blocks=1, stages=2, batch=3)
    model.learn((x, "aaabbb"), epochs=1, held_out=0)
    assert model.metadata.network.stem == stem
    assert model.net.conv.kernel_size == ((3, 3) if stem == "cifar" else (7, 7))
    model.save(tmp_path / "m")
    assert torch.equal(Model.load(tmp_path / "m").scores(x), model.scores(x))


def test_imagenets_stem_leaves_a_sixteenth_of_the_pixels_and_folds_alike():
    torch.manual_seed(0)
    net = ResNet(3, width=8, blocks=1, stages=2, stem="imagenet")
    x = torch.randn(4, 3, 80, 80)
    net.train()(x)  # so that the statistics are not the first ones
    net.eval()
    seen = []
    net.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    with torch.inference_mode():
        scores = net(x)
        assert torch.allclose(Folded(net)(x), scores, atol=1e-5)
    assert seen == [(4, 8, 20, 20)]


def test_the_papers_network_has_the_tensors_it_had():
    names = list(ResNet(2, width=4, blocks=1, stages=1).state_dict())
    assert names[:2] == ["conv.weight", "bn.weight"]
    assert not any("pool" in name for name in names)
