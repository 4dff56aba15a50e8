"""Explicit randomness: one seed makes seven named generators.

Because each choice has a generator of its own, two methods of one seed see the same stream in
the same order with the same crops, start from the same weights and make the same reservoir
decisions: their results pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Generator, Tensor


@dataclass(frozen=True, slots=True)
class Generators:
    """All on the host, so that a seed means the same on every device."""

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
    """Modules built here are initialised from this generator; the global one does not notice."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def generator(seed: int, name: str) -> Generator:
    """A generator of its own for one kind of choice."""
    digest = hashlib.sha256(f"{name}:{seed}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
