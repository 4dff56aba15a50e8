"""The paper's numbers, as in Tables 1 to 4: mean and standard deviation over 10 runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class Number(NamedTuple):
    """Mean and standard deviation, in percent."""

    mean: float
    sd: float


class ReportedRow(BaseModel):
    """A method's line in a table. Joint Training has no BWT."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    acc: Number
    bwt: Number | None = None


class ReportedTable(BaseModel):
    """A table of the paper, or the columns of one stream and memory in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: int
    stream: str
    memory: int
    rows: Mapping[str, ReportedRow]


@dataclass(frozen=True, slots=True)
class PaperResult:
    """One result of the paper with everything that identifies it."""

    table: int
    stream: str
    memory: int
    method: str
    acc: Number
    bwt: Number | None

    def number(self, metric: str) -> Number | None:
        """Return the result in this metric, if the paper has it."""
        return {"acc": self.acc, "bwt": self.bwt}.get(metric)


class TableBatches(NamedTuple):
    """The batches that update φ and θ, from a line of Table 2."""

    ema: str
    parameters: str


class Reported(BaseModel):
    """All results of the paper, the memory's capacity where a table does not name it, the titles
    and hyper-parameters of methods, and their batches in Table 2."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: Mapping[str, int]
    titles: Mapping[str, str]
    hyper: Mapping[str, Mapping[str, float]]
    hyper_on: Mapping[str, Mapping[str, Mapping[str, float]]]
    batches: Mapping[str, TableBatches]
    tables: tuple[ReportedTable, ...]

    def entries(self) -> tuple[PaperResult, ...]:
        return tuple(
            PaperResult(table.table, table.stream, table.memory, method, row.acc, row.bwt)
            for table in self.tables
            for method, row in table.rows.items()
        )

    def hyper_of(self, method: str, stream: str) -> Mapping[str, float]:
        """Return the hyper-parameters of a method in the tables; empty if it has none."""
        return self.hyper_on.get(stream, {}).get(method) or self.hyper.get(method, {})

    def find(self, method: str, stream: str, memory: int | None = None) -> PaperResult | None:
        """Find the paper's result of this method, by default with the stream's own memory."""
        wanted = (method, stream, memory or self.memory.get(stream))
        for entry in self.entries():
            if (entry.method, entry.stream, entry.memory) == wanted:
                return entry
        return None
