"""The batches of one step, by name: symbols, and what recipes make of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


class Source:
    """A batch of the step, by name. In a step each is drawn once."""

    __slots__ = ()

    def __or__(self, other: Source) -> Source:
        return Union(self, other)

    def symbols(self) -> Iterator[Symbol]:
        """The plain symbols it is made of."""
        raise TypeError(f"{type(self).__name__} is not a batch")


@dataclass(frozen=True, slots=True)
class Symbol(Source):
    """A batch that is handed in or drawn."""

    name: str

    def symbols(self) -> Iterator[Symbol]:
        yield self

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Union(Source):
    """Both in one batch."""

    left: Source
    right: Source

    def symbols(self) -> Iterator[Symbol]:
        yield from self.left.symbols()
        yield from self.right.symbols()

    def __str__(self) -> str:
        return f"{self.left} ∪ {self.right}"


@dataclass(frozen=True, slots=True)
class Copies(Source):
    """t-1 copies that weigh as much as one (ER-Balance-Batch)."""

    of: Source

    def symbols(self) -> Iterator[Symbol]:
        yield from self.of.symbols()

    def __str__(self) -> str:
        return f"(t-1)×{self.of}"


@dataclass(frozen=True, slots=True)
class Blended(Source):
    """Its images and labels blended with one another (mixup, by shares from Beta(α, α))."""

    of: Source
    alpha: float

    def symbols(self) -> Iterator[Symbol]:
        yield from self.of.symbols()

    def __str__(self) -> str:
        return f"mixup({self.of})"


@dataclass(frozen=True, slots=True)
class Balanced(Source):
    """The memory batch and as much of the current one as makes the classes even."""

    current: Source
    memory: Source

    def symbols(self) -> Iterator[Symbol]:
        yield from self.current.symbols()
        yield from self.memory.symbols()

    def __str__(self) -> str:
        return "B_b"


Bt = Symbol("B_t")  # the current task's batch
BM = Symbol("B_M")  # a batch of the memory
BM2 = Symbol("B_M2")  # a second, independent one
Bp = Symbol("B_p")  # a batch of the memory, earlier tasks only
Bmix = Symbol("B_t_mix")  # the current task with the memory mixed in by the loader
balanced = Balanced


def blended(source: Source, alpha: float) -> Source:
    """The batch blended with itself, or as it is if α is 0."""
    return Blended(source, alpha) if alpha else source


Bb = balanced(Bt, BM)
REPLAYED = frozenset({BM, BM2, Bp, Bmix})
