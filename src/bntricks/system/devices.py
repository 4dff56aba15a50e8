"""What differs between devices, in one place: how a tensor gets there without a wait, which layout
and which numbers the device can be trusted with, and how much room it has.

A CUDA device works on while the host prepares the next step, as long as nobody waits for it. An
Apple GPU (mps) has no float64, its BatchNorm is wrong on images in channels_last in some versions
of PyTorch, and copies to it that do not block may read memory that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

ROOM = 0.5
"""The share of a device's free memory that the images of a task may take; a step needs the rest."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device. The host does not wait for a CUDA device to take it."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    if device.type == "mps":
        return tensor.to(device).contiguous()
    return tensor.to(device)


def take(tensor: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """These rows of a tensor on the device, selected where the tensor is."""
    return to_device(tensor[to_device(rows, tensor.device)], device)


def near(tensor: Tensor, device: torch.device) -> Tensor:
    """All of a task's samples on the device if there is room; else where they are, for `take`."""
    return tensor.to(device) if tensor.nbytes <= ROOM * free_bytes(device) else tensor


def free_bytes(device: torch.device) -> float:
    """Room for new tensors on a device; no bound on the CPU, where samples are already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return torch.inf


def on_host(state: Any) -> Any:
    """Nested values with all their tensors on the CPU."""
    if isinstance(state, Tensor):
        return state.cpu()
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return state


def place(net: nn.Module, device: torch.device) -> nn.Module:
    """The network on the device, in a layout the device computes rightly in."""
    net = net.to(device)
    if device.type == "mps":
        net = net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return net


def device_of(net: nn.Module) -> torch.device:
    """Where a network is; one without parameters is on the CPU."""
    first = next(net.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def image_layout(device: torch.device) -> torch.memory_format:
    """The layout that convolutions of images are fastest in, where BatchNorm is right in it."""
    return torch.contiguous_format if device.type == "mps" else torch.channels_last


def widest(device: torch.device) -> torch.dtype:
    """The widest floating-point type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def doubled(tensor: Tensor) -> Tensor:
    """In float64: on its device, or on the CPU if the device has no float64."""
    return tensor.to(tensor.device if widest(tensor.device) == torch.float64 else "cpu").double()


@contextmanager
def forked_generators(devices: Iterable[torch.device]) -> Iterator[None]:
    """The global generators, of the CPU and of these devices, are afterwards what they were."""
    devices = set(devices)
    cuda = sorted(device.index or 0 for device in devices if device.type == "cuda")
    mps = any(device.type == "mps" for device in devices)
    state = torch.mps.get_rng_state() if mps else None
    with torch.random.fork_rng(cuda, device_type="cuda"):
        try:
            yield
        finally:
            if state is not None:
                torch.mps.set_rng_state(state)
