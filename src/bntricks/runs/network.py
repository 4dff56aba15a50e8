"""The trained network of a run, kept beside its record if requested: weights and statistics, as
safetensors. It is valid only if its hash is the one in the record.
"""

from pathlib import Path

import safetensors.torch as safe
from torch import nn

from bntricks.errors import UserError
from bntricks.files import parse_tensors, read_errors, regular_bytes, shown, write_atomically
from bntricks.networks.registry import check_named
from bntricks.runs.record import Record
from bntricks.runs.train import build
from bntricks.streams import Stream
from bntricks.training import checkpoint

NAME = "network.safetensors"


def save(net: nn.Module, folder: Path) -> None:
    """Save a network in its run's folder."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in net.state_dict().items()}
    write_atomically(folder / NAME, safe.save(tensors))


def is_kept(folder: Path) -> bool:
    """Whether the folder has the network of its run."""
    return (folder / NAME).is_file()


def load(record: Record, stream: Stream, *, net: str | None = None) -> nn.Module:
    """Load the network that this run trained on this stream. If your own code builds it, name that
    with `net`: a record never decides which code is run."""
    if record.path is None or record.digest is None:
        raise UserError(f"this run of {record.method} has no folder, or no hash of its network")
    path = record.path / NAME
    check_named(record.config.net, net, record.path)
    network = build(record.config.model_copy(update={"device": "cpu"}), stream).net
    with read_errors(path):
        content = regular_bytes(path)
    try:
        network.load_state_dict(parse_tensors(content)[0])
    except (ValueError, RuntimeError) as error:
        raise _not_whole(path, str(error).splitlines()[0]) from None
    if checkpoint.digest(network.state_dict()) != record.digest["network"]:
        raise _not_whole(path, "its hash is not the record's")
    return network


def _not_whole(path: Path, reason: str) -> UserError:
    return UserError(
        f"{shown(path)} is not the network of the run beside it ({shown(reason)}): delete it, and "
        "train the run again"
    )
