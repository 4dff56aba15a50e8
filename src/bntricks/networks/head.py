"""The head of any network: its last linear layer, its features, growth and replacement."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
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
"""Names of modules that are used in training alone: torchvision's `aux1`, `AuxLogits`."""

HEADS: Registry[Callable[[nn.Linear], nn.Linear]] = Registry("head")
"""Functions from a network's last linear layer to its replacement, by name."""
COSINE_SCALE = 10.0
"""As in the code of ER-ACE's authors."""


@HEADS.named("linear")
def linear(layer: nn.Linear) -> nn.Linear:
    """The network's own head."""
    return layer


@HEADS.named("cosine")
def cosine(layer: nn.Linear) -> nn.Linear:
    """A head that compares directions, with the same weights."""
    sizes = layer.in_features, layer.out_features
    head = skip_init(CosineHead, *sizes, bias=False)  # type: ignore[no-untyped-call]
    head.weight = layer.weight
    return head  # type: ignore[no-any-return]


class CosineHead(nn.Linear):
    """10·cos(f, w_c) for each class c: neither a bias nor the length of weights favours any."""

    def forward(self, x: Tensor) -> Tensor:
        return COSINE_SCALE * F.linear(F.normalize(x), F.normalize(self.weight))


def with_head(net: nn.Module, name: str) -> nn.Module:
    """Replace the network's last linear layer by the head of this name."""
    if name == "linear":  # even if the network has none
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
    """Find the last linear layer of any network: `fc`, `classifier` or `head` of torchvision, timm
    and Hugging Face. Auxiliary classifiers do not count."""
    linear = [
        module
        for name, module in net.named_modules()
        if isinstance(module, nn.Linear) and not AUXILIARY.search(name)
    ]
    if not linear:
        raise ValueError("this network has no linear layer, so it has no classifier")
    return linear[-1]


def return_scores(net: nn.Module) -> nn.Module:
    """Make a network return its scores alone, in place. Those of Hugging Face return an object with
    `logits`, and so do some of torchvision's in training mode."""
    if _return_scores not in net._forward_hooks.values():
        net.register_forward_hook(_return_scores)
    return net


def scores_in(output: Any) -> Any:
    """Return the `logits` of a network's output, or else all of it. Scores of a 1×1 convolution,
    [N, C, 1, 1], become [N, C]."""
    logits = output.get if isinstance(output, Mapping) else partial(getattr, output)
    scores = logits("logits", output)
    pooled = isinstance(scores, Tensor) and scores.ndim == 4 and scores.shape[2:] == (1, 1)
    return scores.flatten(1) if pooled else scores


def _return_scores(net: nn.Module, inputs: object, output: object) -> object:
    return scores_in(output)


def features(net: nn.Module, x: Tensor) -> Tensor:
    """Return f(x), what the head of a network sees."""
    if isinstance(net, ResNet):
        return net.features(x)
    with seen_by_head(net) as seen:
        net(x)
    return seen[-1]


@contextmanager
def seen_by_head(net: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the features of every forward within."""
    seen: list[Tensor] = []
    head = net.linear if isinstance(net, ResNet) else last_linear(net)
    handle = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()
def grow(net: nn.Module, outputs: int, generator: Generator) -> None:
    """Widen the head to `outputs`, in place. Old rows stay to the bit. New ones have PyTorch's
    default initialisation, with biases around the mean of the old ones, so that neither drowns the
    other. Optimisers made before hold the old parameters."""
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
    """Keep these outputs of the head, in order, in place. Optimisers hold the old parameters."""
    linear, rows = last_linear(net), list(outputs)
    linear.weight = nn.Parameter(linear.weight[rows], requires_grad=linear.weight.requires_grad)
    if linear.bias is not None:
        linear.bias = nn.Parameter(linear.bias[rows], requires_grad=linear.bias.requires_grad)
    linear.out_features = len(rows)


def check_outputs(net: nn.Module, classes: Collection[int]) -> None:
    """Refuse classes that the head has no output for; a network without a linear layer may have
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
