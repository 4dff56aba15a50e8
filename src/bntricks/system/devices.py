"""Differences between devices: copies that do not wait, layouts, precision, and free memory.

A CUDA device computes while the host prepares the next step, unless the host waits for a result. An
Apple GPU (mps) has no float64; its BatchNorm is wrong on images in channels_last in some versions
of PyTorch, and copies to it that do not block may read freed memory.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

ROOM = 0.5
"""The share of a device's free memory that the images of a task may take; a step needs the rest."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to the device; the host does not wait for a CUDA device."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    if device.type == "mps":
        return tensor.to(device).contiguous()
    return tensor.to(device)


def take(tensor: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Select rows of a tensor where it is, and bring them to the device."""
    return to_device(tensor[to_device(rows, tensor.device)], device)


def near(tensor: Tensor, device: torch.device) -> Tensor:
    """Bring all of a task's samples to the device if there is room; else `take` brings some."""
    return tensor.to(device) if tensor.nbytes <= ROOM * free_bytes(device) else tensor


def free_bytes(device: torch.device) -> float:
    """Return the free memory of a device; infinite for the CPU, where samples are already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return torch.inf


def on_host(state: Any) -> Any:
    """Bring all tensors in nested values to the CPU."""
    if isinstance(state, Tensor):
        return state.cpu()
    if isinstance(state, dict):
        return {key: on_host(value) for key, value in state.items()}
    return [on_host(value) for value in state] if isinstance(state, list) else state


def place(net: nn.Module, device: torch.device) -> nn.Module:
    """Bring the network to the device, in a layout in which the device computes correctly."""
    net = net.to(device)
    if device.type == "mps":
        net = net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return net


def device_of(net: nn.Module) -> torch.device:
    """Return a network's device; without parameters it is the CPU."""
    first = next(net.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def image_layout(device: torch.device) -> torch.memory_format:
    """Return the fastest layout for convolutions in which BatchNorm is correct."""
    return torch.contiguous_format if device.type == "mps" else torch.channels_last


def widest(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def doubled(tensor: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device has none."""
    return tensor.to(tensor.device if widest(tensor.device) == torch.float64 else "cpu").double()


@contextmanager
def forked_generators(devices: Iterable[torch.device]) -> Iterator[None]:
    """Restore the global generators of the CPU and of these devices afterwards."""
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
