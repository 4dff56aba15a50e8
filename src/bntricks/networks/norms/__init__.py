"""What normalises a network, by name: a factory from channels to a layer, one scheme a file."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from bntricks.registry import Registry

Norm = Callable[[int], nn.Module]

NORMS: Registry[Norm] = Registry("normalisation", home=__name__)
