"""Every network by name, and how one is built: the same generator gives the same weights."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, nn

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.networks.norms import bound, describe
from bntricks.networks.options import NetworkOptions
from bntricks.plugins.imports import import_code
from bntricks.plugins.registry import Registry
from bntricks.seeds import construction

Builder = Callable[..., nn.Module]
"""A function (shape of a sample, outputs, *, width, blocks, stages, norm) to a network, whose last
linear layer is its head. Sizes that it does not take cannot be chosen."""

NETWORKS: Registry[Builder] = Registry(
    "network", home="bntricks.networks", group="bntricks.networks"
)


def image_channels(shape: Sequence[int]) -> int:
    """Return the channels of images of this shape, or refuse samples that are not images."""
    if len(shape) != 3:
        raise UserError(
            f"it is for images, and a sample has the shape {list(shape)}: choose mlp", option="net"
        )
    return shape[0]


def is_imported(name: str) -> bool:
    """Whether this is `package.module:function`, not a name in the registry."""
    return ":" in name and name not in NETWORKS.entries()


def check_named(name: str, given: str | None, where: Path) -> None:
    """Import the code that a file names as its network, but only if the user names it too."""
    if is_imported(name) and given == name:
        import_code(name.partition(":")[0])
    elif is_imported(name):
        raise UserError(
            f"{shown(where)} names code to build the network, {shown(name)}, and a file never "
            "decides which code is run: if you trust it, name it yourself",
            remedy="net",
        )


def sizes(name: str) -> set[str]:
    """Name the options of size that this network has."""
    if is_imported(name):
        return set()
    parameters = inspect.signature(NETWORKS.find(name)).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    own = NetworkOptions.options(of="network")
    return set(own if takes_any else own & parameters.keys())


def first_name(name: str) -> str:
    """Return the name under which this network was registered first: `resnet` for `resnet18`."""
    if is_imported(name):
        return name
    build = NETWORKS.find(name)
    return next(each for each, other in NETWORKS.entries().items() if other is build)


def build_network(
    options: NetworkOptions, shape: Sequence[int], outputs: int, init: Generator, **known: Any
) -> nn.Module:
    """Build a network for samples of this shape. For images it is in channels_last, the fastest
    layout for convolutions. Further keywords, `tasks` and `as_published`, are for the norm."""
    from bntricks.networks.head import with_head  # which knows the networks

    with construction(init):
        name, norm, knobs = options.net, options.norm, options.norm_knobs | known
        if is_imported(name):
            from bntricks.networks.imported import build_imported  # which needs the other networks

            net = build_imported(name, shape, outputs, norm, **knobs)
        else:
            own = options.model_dump(include=sizes(name))
            net = NETWORKS.find(name)(shape, outputs, norm=bound(norm, **knobs), **own)
            net = describe(norm).network(net)
        net = with_head(net, options.head)
    return channels_last(net) if len(shape) == 3 else net


def channels_last(net: nn.Module) -> nn.Module:
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
