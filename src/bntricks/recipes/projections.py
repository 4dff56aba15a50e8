"""Gradients corrected so that no past task gets worse: GEM (Lopez-Paz & Ranzato 2017) and A-GEM
(Chaudhry et al. 2019). Their memory passes move φ, as usual in training mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.batch import Batch
from bntricks.recipes.language import BM, Source
from bntricks.recipes.policies import stored
from bntricks.system.devices import to_device, widest

if TYPE_CHECKING:
    from bntricks.training.state import State
    from bntricks.training.step import Draws

Array = np.ndarray[Any, Any]
CHUNK = 1 << 16
"""Columns of a Gram matrix at a time; products are in float32, their sums in float64."""


@dataclass(frozen=True, slots=True)
class Cone:
    """GEM: the nearest gradient that increases no past task's loss, to first order."""

    least_per_task: ClassVar[int] = 2  # one sample has no variance
    forwards: ClassVar[str] = "t-1"
    margin: float = 0.5
    ridge: float = 1e-3

    @contextmanager
    def __call__(self, draws: Draws) -> Iterator[None]:
        state = draws.state
        past = [k for k in range(1, state.lesson.t) if len(stored(state).of_task(k)) > 1]
        parameters = [p for p in state.net.parameters() if p.requires_grad]
        rows = torch.empty(
            len(past) + 1, sum(p.numel() for p in parameters), device=draws.current.x.device
        )
        for row, task in zip(rows, past, strict=False):
            with state.passing(f"project on task {task}"):
                _learn(state, _replayed(state, task))
            _flatten(parameters, row)
        yield
        if not past:
            return
        _flatten(parameters, rows[-1])
        gram = gram_matrix(rows)
        products, against = gram[:-1, :-1], gram[:-1, -1]  # G G', G g
        if np.isfinite(gram).all() and (against < 0).any():
            weights = cone_weights(products, against, margin=self.margin, ridge=self.ridge)
            combination = torch.from_numpy(np.append(weights, 1.0)).to(rows.dtype)
            _unflatten(parameters, to_device(combination, rows.device) @ rows)

    def __str__(self) -> str:
        return "cone of past gradients"


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """A-GEM: the gradient without the part that works against the memory batch."""

    draws: ClassVar[Source] = BM
    forwards: ClassVar[str] = "1"

    @contextmanager
    def __call__(self, draws: Draws) -> Iterator[None]:
        yield
        batch = draws.batch(BM)
        if batch is None or len(batch) < 2:
            return
        parameters = [p for p in draws.state.net.parameters() if p.grad is not None]
        gradient = [_grad(p) for p in parameters]
        with draws.state.passing("project"):
            _learn(draws.state, batch)
        half_space(gradient, [_grad(p) for p in parameters])
        for parameter, corrected in zip(parameters, gradient, strict=True):
            parameter.grad = corrected

    def __str__(self) -> str:
        return "half-space of the memory gradient"


def half_space(gradient: list[Tensor], reference: list[Tensor]) -> None:
    """Project in place: g ← g − (⟨g, r⟩ / ⟨r, r⟩) r where ⟨g, r⟩ < 0, so that ⟨g, r⟩ ≥ 0."""
    along, length = _dots((gradient, reference), (reference, reference))
    if along < 0 < length:
        for g, r in zip(gradient, reference, strict=True):
            g.sub_(r, alpha=along / length)


def cone_weights(products: Array, against: Array, *, margin: float, ridge: float) -> Array:
    """Solve v = argmin ½ v'(GG' + εI)v + (Gg)'v with v ≥ γ, as non-negative least squares.

    With v = γ + u the objective is ½ u'Qu + q'u, u ≥ 0, and with Q = A'A it is half of
    ‖Au + A⁻ᵀq‖² up to a constant. A comes from eigenvalues, which a singular system has too.
    """
    # The import takes a third of a second, which only GEM should pay.
    from scipy.optimize import nnls

    q = (products + products.T) / 2 + ridge * np.eye(len(products))
    values, vectors = np.linalg.eigh(q)
    root = np.sqrt(np.maximum(values, np.finfo(float).eps * max(values.max(), 1.0)))
    linear = q.sum(1) * margin + against
    u, _ = nnls(root[:, None] * vectors.T, -(vectors.T @ linear) / root)
    return np.asarray(u + margin)


def gram_matrix(rows: Tensor) -> Array:
    """Compute all inner products of the rows, in chunks summed in float64: over millions of columns
    a float32 sum loses the third digit."""
    products = torch.stack([chunk @ chunk.T for chunk in torch.split(rows, CHUNK, dim=1)])
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for product in products.cpu():
        total += product
    return total.numpy()


def _learn(state: State, batch: Batch) -> None:
    """Leave the gradient of this batch's cross-entropy in `.grad`."""
    state.optimiser.zero_grad()
    y = to_device(batch.y, batch.x.device)
    F.cross_entropy(state.forward(batch.x), y).backward()  # type: ignore[no-untyped-call]


def _replayed(state: State, task: int) -> Batch:
    """Read all stored samples of a task, augmented."""
    raw = stored(state).read(torch.from_numpy(stored(state).of_task(task)))
    return Batch(state.view(raw.x, state.replay_augmentation), raw.y)


def _flatten(parameters: list[torch.nn.Parameter], row: Tensor) -> None:
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        row[start:end].view(parameter.shape).copy_(_grad(parameter))
        start = end


def _unflatten(parameters: list[torch.nn.Parameter], row: Tensor) -> None:
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        if parameter.grad is not None:
            parameter.grad.copy_(row[start:end].view(parameter.shape))
        start = end


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _dots(*pairs: tuple[list[Tensor], list[Tensor]]) -> list[float]:
    """Compute inner products and read them from the device at once."""
    dtype = widest(pairs[0][0][0].device)
    products = [
        torch.stack([(a * b).sum(dtype=dtype) for a, b in zip(first, second, strict=True)])
        for first, second in pairs
    ]
    return [float(row.double().sum()) for row in torch.stack(products).cpu()]
