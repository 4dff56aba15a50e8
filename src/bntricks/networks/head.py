"""The head of any network: its last linear layer, what that layer sees, how it grows with the
classes (spec A20), and other layers in its place, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.utils import skip_init

from bntricks.errors import UserError
from bntricks.networks.resnet import ResNet
from bntricks.plugins.registry import Registry
from bntricks.seeds import construction

AUXILIARY = re.compile(r"(^|[._])aux", re.IGNORECASE)
"""In the name of a module that is used in training alone: torchvision's `aux1`, `AuxLogits`."""

HEADS: Registry[Callable[[nn.Linear], nn.Linear]] = Registry("head")
"""By name, a function from a network's last linear layer to the layer that takes its place."""
COSINE_SCALE = 10.0
"""That of ER-ACE's authors."""


@HEADS.named("linear")
def linear(layer: nn.Linear) -> nn.Linear:
    """The network's own head."""
    return layer


@HEADS.named("cosine")
def cosine(layer: nn.Linear) -> nn.Linear:
    """A head that compares directions, from the same weights."""
    sizes = layer.in_features, layer.out_features
    head = skip_init(CosineHead, *sizes, bias=False)  # type: ignore[no-untyped-call]
    head.weight = layer.weight
    return head  # type: ignore[no-any-return]


class CosineHead(nn.Linear):
    """10·cos(f, w_c) for each class c, so that no class is favoured by the length of its weights or
    by a bias."""

    def forward(self, x: Tensor) -> Tensor:
        return COSINE_SCALE * F.linear(F.normalize(x), F.normalize(self.weight))


def with_head(net: nn.Module, name: str) -> nn.Module:
    """The network with the head of this name in place of its last linear layer."""
    if name == "linear":  # a network without one, too
        return net
    layer = last_linear(net)
    head = HEADS.find(name)(layer)
    if not isinstance(head, nn.Linear):
        raise UserError(
            f"it made a {type(head).__name__}, and a head is an nn.Linear: inherit from that",
            option="head",
            value=name,
        )
    path = next(path for path, module in net.named_modules() if module is layer)
    net.set_submodule(path, head)
    return net


def last_linear(net: nn.Module) -> nn.Linear:
    """The last linear layer of a network, whatever the network is: `fc`, `classifier` or `head` of
    torchvision, timm and Hugging Face. Auxiliary classifiers, which go by that name, do not count,
    wherever they stand."""
    linear = [
        module
        for name, module in net.named_modules()
        if isinstance(module, nn.Linear) and not AUXILIARY.search(name)
    ]
    if not linear:
        raise ValueError("this network has no linear layer, so it has no classifier")
    return linear[-1]


def return_scores(net: nn.Module) -> nn.Module:
    """The same network, which from now on returns its scores alone. Those of Hugging Face return
    an object with `logits`, and some of torchvision's do so while they are trained."""
    if _return_scores not in net._forward_hooks.values():
        net.register_forward_hook(_return_scores)
    return net


def scores_in(output: Any) -> Any:
    """The scores in what a network returned: its `logits`, or else all of it."""
    if isinstance(output, Mapping):
        return output.get("logits", output)
    return getattr(output, "logits", output)


def _return_scores(net: nn.Module, inputs: object, output: object) -> object:
    return scores_in(output)


def features(net: nn.Module, x: Tensor) -> Tensor:
    """f(x): what the head of a network sees."""
    if isinstance(net, ResNet):
        return net.features(x)
    with seen_by_head(net) as seen:
        net(x)
    return seen[-1]


@contextmanager
def seen_by_head(net: nn.Module) -> Iterator[list[Tensor]]:
    """The features of every forward within."""
    seen: list[Tensor] = []
    handle = last_linear(net).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()
def grow(net: nn.Module, outputs: int, generator: Generator) -> None:
    """Widen the head to this many outputs, in place. Old rows stay to the bit; new ones are
    PyTorch's default initialisation, about the mean of the old biases, so that a head whose biases
    are all high or all low does not drown new classes or drown in them. Optimisers made before
    hold the old parameters."""
    linear = last_linear(net)
    more = outputs - linear.out_features
    if more < 0:
        raise ValueError(f"a head of {linear.out_features} outputs cannot shrink to {outputs}")
    if not more:
        return
    with construction(generator):
        new = nn.Linear(linear.in_features, more, bias=linear.bias is not None)
        new = new.to(linear.weight.device, linear.weight.dtype)
    linear.weight = _joined(linear.weight, new.weight)
    if linear.bias is not None:
        linear.bias = _joined(linear.bias, new.bias + linear.bias.mean())
    linear.out_features = outputs


@torch.no_grad()
def keep_outputs(net: nn.Module, outputs: Sequence[int]) -> None:
    """Leave the head with these of its outputs, in this order, in place. Optimisers made before
    hold the old parameters."""
    linear, rows = last_linear(net), list(outputs)
    linear.weight = nn.Parameter(linear.weight[rows], requires_grad=linear.weight.requires_grad)
    if linear.bias is not None:
        linear.bias = nn.Parameter(linear.bias[rows], requires_grad=linear.bias.requires_grad)
    linear.out_features = len(rows)


def check_outputs(net: nn.Module, classes: Collection[int]) -> None:
    """Refuse classes that the head has no output for; other heads than a linear layer may have
    any."""
    try:
        outputs = last_linear(net).out_features
    except ValueError:
        return
    last = max(classes, default=-1)
    if last >= outputs:
        raise ValueError(
            f"class {last} is beyond the head's {outputs} outputs: call grow({last + 1}) first"
        )


def _joined(old: Tensor, new: Tensor) -> nn.Parameter:
    return nn.Parameter(torch.cat([old, new]), requires_grad=old.requires_grad)
