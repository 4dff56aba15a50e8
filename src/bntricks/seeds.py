"""Explicit randomness: one seed makes seven named generators.

Because each choice has a generator of its own, two methods of one seed see the same stream in
the same order with the same crops, start from the same weights and make the same reservoir
decisions: their results pair.
"""

import hashlib
import random
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from torch import Generator, Tensor

from bntricks.system.devices import forked_generators


@dataclass(frozen=True, slots=True)
class Generators:
    """A generator for each kind of choice, on the host: a seed means the same on every device."""

    init: Generator
    order: Generator
    stream_augmentation: Generator
    replay_augmentation: Generator
    memory_insertion: Generator
    memory_sampling: Generator
    averaging: Generator

    @classmethod
    def of(cls, seed: int) -> Self:
        return cls(**{f.name: generator(seed, f.name) for f in fields(cls)})

    def state_dict(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name).get_state() for f in fields(self)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for f in fields(self):
            if f.name != "averaging" or f.name in state:  # earlier versions had six
                getattr(self, f.name).set_state(state[f.name])


@contextmanager
def construction(generator: Generator) -> Iterator[None]:
    """Initialise modules built within from this generator; the global ones stay as they are."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with borrowed_generators():
        seed_globally(seed)
        yield


@contextmanager
def borrowed_generators(devices: Collection[torch.device] = ()) -> Iterator[None]:
    """Restore the global generators of Python, numpy and torch afterwards."""
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 (the user's)
    with forked_generators(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)  # noqa: NPY002


def seed_globally(seed: int, devices: Collection[torch.device] = ()) -> None:
    """Seed the global generators of Python, numpy and torch, on the CPU and these devices."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)
    for device in devices:
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif device.type == "mps":
            torch.mps.manual_seed(seed)


def derived_seed(*parts: object) -> int:
    """Derive a seed from these values; similar values give unrelated seeds."""
    digest = hashlib.sha256(":".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, name: str) -> Generator:
    """Make the generator for one kind of choice."""
    return Generator().manual_seed(derived_seed(name, seed))
