"""Options that choose the network. Nothing here needs torch."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from bntricks.options import Option, Options


class NetworkOptions(Options):
    """The network, its normalisation and its size."""

    shown_in: ClassVar[str] = "Network"

    net: str = "resnet"
    """The network: `resnet` or `resnet18`, the paper's; `resnet32`, that of He et al. for CIFAR;
    `mlp`; or `package.module:build`, a function of yours that is called with the number of
    classes."""
    norm: Annotated[str, Option(decides_phi=True)] = "bn"
    """What normalises it, by its name in `bnt norms`: `bn` is BatchNorm."""
    groups: Annotated[int | None, Field(ge=1), Option(of="norm", rare=True)] = None
    """Groups of channels in each layer, for norms that have them [default: half as many as there
    are channels, at most 32]."""
    momentum: Annotated[
        float | None,
        Field(ge=0, le=1),
        Option(of="norm", decides_phi=True, unset="0.1", rare=True),
    ] = None
    """Weight of a new batch in the running statistics; 0 gives all batches the same weight
    [default: the norm's own, 0.1 for BatchNorm]."""
    kappa: Annotated[float | None, Field(ge=0, le=1), Option(of="norm", rare=True)] = None
    """AdaB²N: how soon running statistics forget, from 0, an average over all batches, to 1, a
    momentum of 0.1 [default: 0.4]."""
    lambda_norm: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False), Option(of="norm", rare=True)
    ] = None
    """AdaB²N: weight of the distance between batch and running statistics in the loss [default:
    0.1]."""
    head: Annotated[str, Option(rare=True)] = "linear"
    """The network's last layer: `linear`, or `cosine`, ten times the cosine between the features
    and a class's weights."""
    width: Annotated[int, Field(ge=1), Option(of="network")] = 64
    """Channels of the first stage of a `resnet`, or of the hidden layers of an `mlp`."""
    blocks: Annotated[int, Field(ge=1), Option(of="network", rare=True)] = 2
    """Residual blocks in a stage of a `resnet`."""
    stages: Annotated[int, Field(ge=1, le=6), Option(of="network", rare=True)] = 4
    """Stages of a `resnet`; each but the first halves the image and doubles the width."""

    @property
    def norm_knobs(self) -> dict[str, Any]:
        """The options of the norm; None leaves each norm its own."""
        return {name: getattr(self, name) for name in sorted(self.options(of="norm"))}
