"""A head that compares directions: no class is favoured by the length of its weights or a bias."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import skip_init

from bntricks.networks.head import last_linear

SCALE = 10.0
"""That of ER-ACE's authors."""


class CosineHead(nn.Linear):
    """10·cos(f, w_c) for each class c."""

    def forward(self, x: Tensor) -> Tensor:
        return SCALE * F.linear(F.normalize(x), F.normalize(self.weight))


def with_cosine_head(net: nn.Module) -> nn.Module:
    """The network with such a head in place of its last linear layer, from the same weights."""
    linear = last_linear(net)
    sizes = linear.in_features, linear.out_features
    head = skip_init(CosineHead, *sizes, bias=False)  # type: ignore[no-untyped-call]
    head.weight = linear.weight
    path = next(name for name, module in net.named_modules() if module is linear)
    parent, _, name = path.rpartition(".")
    setattr(net.get_submodule(parent), name, head)
    return net
