"""A method is a value: the columns of the paper's ablation table (Table 2).

    er     = Method(updates=[ce(Bt | BM)], memory=Reservoir())
    er_bnt = Method(ema=Bb, updates=[ce(Bt) + ce(BM)], memory=Reservoir())

`Bt`, `BM`, ... are symbols for the batches of one step, `|` is their union (one forward, joint
batch statistics), and a loss applied to a symbol is a term. `training/step.py` carries it out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal, Protocol

from torch import Tensor

from bntricks.errors import UserError
from bntricks.recipes.classifiers import LINEAR, Classifier
from bntricks.recipes.options import TrainingOptions

if TYPE_CHECKING:
    from torch import nn

    from bntricks.batch import Batch
    from bntricks.recipes.averages import Average
    from bntricks.recipes.lesson import Lesson
    from bntricks.recipes.policies import Policy
    from bntricks.training.state import State
    from bntricks.training.step import Draws


class Source:
    """A batch of a step, drawn once a step."""

    __slots__ = ()

    def __or__(self, other: Source) -> Source:
        return Union(self, other)

    def symbols(self) -> Iterator[Symbol]:
        """Yield the plain symbols it is made of."""
        for part in fields(self):  # type: ignore[arg-type]
            if isinstance(source := getattr(self, part.name), Source):
                yield from source.symbols()


@dataclass(frozen=True, slots=True)
class Symbol(Source):
    """A batch that is given or drawn, by name."""

    name: str

    def symbols(self) -> Iterator[Symbol]:
        yield self

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Union(Source):
    """Two batches in one."""

    left: Source
    right: Source

    def __str__(self) -> str:
        return f"{self.left} ∪ {self.right}"


@dataclass(frozen=True, slots=True)
class Copies(Source):
    """t-1 copies of a batch that weigh as much as one (ER-Balance-Batch)."""

    of: Source

    def __str__(self) -> str:
        return f"(t-1)×{self.of}"


@dataclass(frozen=True, slots=True)
class Blended(Source):
    """A batch with images and labels blended (mixup, by shares from Beta(α, α))."""

    of: Source
    alpha: float

    def __str__(self) -> str:
        return f"mixup({self.of})"


@dataclass(frozen=True, slots=True)
class Balanced(Source):
    """The memory batch plus as many current samples as make the classes even."""

    current: Source
    memory: Source

    def __str__(self) -> str:
        return "B_b"


Bt = Symbol("B_t")  # the current task's batch
BM = Symbol("B_M")  # a batch of the memory
BM2 = Symbol("B_M2")  # a second, independent one
Bp = Symbol("B_p")  # a batch of the memory, earlier tasks only
Bmix = Symbol("B_t_mix")  # the current task with the memory mixed in by the loader
balanced = Balanced


def blended(source: Source, alpha: float) -> Source:
    """Blend the images of a batch; α = 0 leaves it as it is."""
    return Blended(source, alpha) if alpha else source


Bb = balanced(Bt, BM)
REPLAYED = frozenset({BM, BM2, Bp, Bmix})


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One forward of a batch, as a loss sees it."""

    logits: Tensor  # [B, C], float32
    batch: Batch
    lesson: Lesson
    net: nn.Module
    seen_by_head: Tensor | None = None
    labels: Tensor | None = None  # of the whole batch, which ranks may share, on the host
    options: TrainingOptions = field(default_factory=TrainingOptions)

    @property
    def features(self) -> Tensor:
        """The features [B, F] that the head saw, for losses that ask for them."""
        if self.seen_by_head is None:
            raise UserError("only a loss that asks for features has them: @loss(…, features=True)")
        return self.seen_by_head


@dataclass(frozen=True, slots=True)
class Loss:
    """A named loss; applied to a batch symbol it makes an update of one term."""

    name: str
    of: Callable[[Pass], Tensor] = field(repr=False)
    features: bool = False
    """Whether it reads `Pass.features`."""
    each_class_once: bool = False
    """Whether it is wrong for samples whose class belongs to another task."""
    blends: bool = False
    """Whether it handles blended labels."""

    def __call__(self, source: Source) -> Update:
        return Update((Term(self, source),))

    def value(self, seen: Pass) -> Tensor:
        """Return the loss of a pass; it must be one number, in a tensor on the pass's device."""
        value = self.of(seen)
        if not isinstance(value, Tensor):
            given = f"a {type(value).__name__}"
        elif value.dim():
            given = f"a tensor of shape {list(value.shape)}"
        elif value.device != seen.logits.device:
            given = f"a tensor on {value.device}"
        else:
            return value
        code = getattr(inspect.unwrap(self.of), "__code__", None)
        where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        raise UserError(
            f"the loss {self.name}{where} returned {given}: return one number for the batch, such "
            f"as a mean, as a tensor on {seen.logits.device}"
        )


@dataclass(frozen=True, slots=True)
class Term:
    """weight · loss(batch), times λ = |M| / |T_t| where `shared` (Algorithm 2, line 1)."""

    loss: Loss
    source: Source
    weight: float = 1.0
    shared: bool = False

    def __str__(self) -> str:
        scale = "" if self.weight == 1.0 else f"{self.weight:g}·"
        return f"{scale}{'λ·' * self.shared}{self.loss.name}({self.source})"


@dataclass(frozen=True, slots=True)
class Update:
    """A weighted sum of losses: one optimiser step."""

    terms: tuple[Term, ...]

    def __add__(self, other: Update) -> Update:
        return Update(self.terms + other.terms)

    def __rmul__(self, weight: float) -> Update:
        return Update(tuple(replace(t, weight=weight * t.weight) for t in self.terms))

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))


class MemoryShare:
    """λ, the memory's size over the task's: `lam * icarl(Bb)`."""

    def __mul__(self, update: Update) -> Update:
        return Update(tuple(replace(t, shared=True) for t in update.terms))


lam = MemoryShare()


class Projection(Protocol):
    """A context around an update's passes that corrects the gradient in `.grad`. It may name the
    batch of the step that it reads (`draws`) and how many stored samples of every task it needs
    (`least_per_task`)."""

    @property
    def forwards(self) -> str:
        """The forwards it adds to a step, in words."""

    def __call__(self, draws: Draws) -> AbstractContextManager[None]: ...


Stage = Callable[["State", "Batch | None"], None]
"""A function of the state and of the finished task's raw samples, if they were given."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the ablation table, plus what the baselines need."""

    updates: Sequence[Update]
    """Which batches move θ, by which losses: one optimiser step each."""
    ema: Source | None = None
    """Which batch moves φ; None: every forward does, as usual."""
    memory: Policy | None = None
    """What is kept, and when."""
    classify: Classifier = LINEAR
    """How a label is read off."""
    project: Projection | None = None
    """How the gradient is corrected."""
    teacher: Literal["previous", "recorded"] | None = None
    """Whose outputs are targets: the network before this task, or outputs recorded at its start."""
    averages: Sequence[Average] = ()
    """Slow copies of the network that set the targets of replayed samples."""
    decay: float = 0.0
    """δ in δ‖θ‖²."""
    prepare: Callable[[State, Batch], None] | None = None
    """What happens before a task is learned, given all its raw samples."""
    stages: Sequence[Stage] = ()
    """What happens when a task has been learned, in this order, before any prediction."""
    reads_ema: bool = False
    """Whether φ is read inside a task, so that no tracking pass may be left out."""
    joint: bool = False
    """Whether all tasks are learned at once, after the last."""
    together: bool = False
    """Whether all batches of an update share one forward; each loss term sees its own rows."""

    def __post_init__(self) -> None:
        for name in ("updates", "stages", "averages"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.together and self.ema is not None:
            raise ValueError("if all batches go together, no batch can move φ by itself")
        for term in (term for update in self.updates for term in update.terms):
            if isinstance(term.source, Blended) and not term.loss.blends:
                raise ValueError(
                    f"{term.loss.name} knows one label of a sample: blend none into it"
                )

    @property
    def sources(self) -> tuple[Source, ...]:
        """The batches that move θ, in order, each once an update."""
        return tuple(source for update in self.updates for source in self.passes(update))

    def passes(self, update: Update) -> tuple[Source, ...]:
        """List the batches that an update passes through the network."""
        sources = tuple(dict.fromkeys(term.source for term in update.terms))
        return (reduce(Union, sources),) if self.together else sources

    @property
    def replayed(self) -> frozenset[Symbol]:
        """The replayed symbols that θ is trained on."""
        return REPLAYED.intersection(s for source in self.sources for s in source.symbols())

    @property
    def joins_replay(self) -> bool:
        """Whether some forward has both the current batch and a replayed one."""
        unions = (set(s.symbols()) for s in self.sources if isinstance(s, Union))
        return any(Bt in symbols and symbols & REPLAYED for symbols in unions)

    @property
    def mixes(self) -> bool:
        """Whether the loader mixes the memory into the task's own samples."""
        return any(Bmix in source.symbols() for source in self.sources)

    @property
    def runs_over_a_moving_memory(self) -> bool:
        """Whether an epoch's samples cannot be rebuilt in its middle, as the memory has changed."""
        return self.mixes and self.memory is not None and self.memory.fills == "step"

    @property
    def weighs_by_size(self) -> bool:
        """Whether a term has the weight λ, which depends on the task's size."""
        return any(term.shared for update in self.updates for term in update.terms)

    @property
    def tracks_apart(self) -> bool:
        """Whether φ needs a forward of its own, because θ is not trained on the tracked batch."""
        return self.ema is not None and self.ema not in self.sources

    @property
    def lets_phi_reach_theta(self) -> bool:
        """Whether θ may depend on φ: by targets, stored outputs or a stage."""
        made_at_ends = self.teacher or self.averages or self.prepare or self.stages
        stores_at_ends = self.memory is not None and self.memory.fills == "task end"
        return bool(self.reads_ema or made_at_ends or stores_at_ends)

    @property
    def sets_ema(self) -> Source | None:
        """The batch whose statistics a stage gives φ when a task is over (`sets_ema`), if any."""
        return next((s for stage in self.stages if (s := getattr(stage, "sets_ema", None))), None)

    def columns(self) -> dict[str, str | float | None]:
        """Return its row of the ablation table; the share of φ is as task 5 ends."""
        from bntricks.recipes.phi_share import new_share  # which imports this module

        symbols = {symbol for source in self.sources for symbol in source.symbols()}
        return {
            "ema": "/" if self.ema is None else str(self.ema),
            "parameters": ", ".join(dict.fromkeys(map(str, self.sources))),
            "loss": "; then ".join(map(str, self.updates)),
            "memory": "none" if self.memory is None else str(self.memory),
            "classify": str(self.classify),
            "forwards": len(self.sources),
            "tracking_forwards": int(self.tracks_apart),
            "teacher_forwards": len(symbols if self.teacher == "previous" else self.averages),
            "projection": "none" if self.project is None else str(self.project),
            "projection_forwards": "0" if self.project is None else self.project.forwards,
            "decay": self.decay,
            "new_share_of_phi": new_share(self, t=5),
        }
