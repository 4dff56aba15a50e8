"""The paper's numbers as Tables 1 to 4 print them: mean and standard deviation over 10 runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class Number(NamedTuple):
    """Mean and standard deviation, in percent."""

    mean: float
    sd: float


class Row(BaseModel):
    """A method's line in a table. Joint Training has no BWT."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    acc: Number
    bwt: Number | None = None


class Table(BaseModel):
    """A table of the paper, or the columns of one stream and memory in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: int
    stream: str
    memory: int
    rows: Mapping[str, Row]


@dataclass(frozen=True, slots=True)
class Entry:
    """One result of the paper with everything that identifies it."""

    table: int
    stream: str
    memory: int
    method: str
    acc: Number
    bwt: Number | None


class Batches(NamedTuple):
    """What a line of Table 2 says of its method: what updates φ, and what updates θ."""

    ema: str
    parameters: str


class Reported(BaseModel):
    """All results of the paper, the memory's capacity where a table does not name it, how methods
    are called there, their hyper-parameters, and which batches Table 2 gives them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: Mapping[str, int]
    titles: Mapping[str, str]
    hyper: Mapping[str, Mapping[str, float]]
    hyper_on: Mapping[str, Mapping[str, Mapping[str, float]]]
    batches: Mapping[str, Batches]
    tables: tuple[Table, ...]

    def entries(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(table.table, table.stream, table.memory, method, row.acc, row.bwt)
            for table in self.tables
            for method, row in table.rows.items()
        )

    def hyper_of(self, method: str, stream: str) -> Mapping[str, float]:
        """The hyper-parameters of a method of the tables; empty if it has none."""
        return self.hyper_on.get(stream, {}).get(method) or self.hyper.get(method, {})

    def find(self, method: str, stream: str, memory: int | None = None) -> Entry | None:
        """The paper's result of this method, by default with the stream's own memory capacity. Two
        tables that both print it print the same."""
        wanted = (method, stream, memory or self.memory.get(stream))
        for entry in self.entries():
            if (entry.method, entry.stream, entry.memory) == wanted:
                return entry
        return None
