"""The memory policy of GSS (Aljundi et al. 2019), which compares gradients of single samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bntricks.batch import Batch
from bntricks.recipes.as_published import unaugmented
from bntricks.recipes.policies import Policy, keep_evenly, rows, stored
from bntricks.recipes.sample_gradients import Gradients, batch_cosines, cosines, per_sample
from bntricks.system.devices import to_device

if TYPE_CHECKING:
    from bntricks.memory import Memory
    from bntricks.training.state import State

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class GradientGreedy(Policy):
    """A memory of samples whose gradients point away from each other.

    A sample's score is 1 plus the largest cosine between its gradient and those of some stored
    samples, from 0 (unlike all) to 2. While there is room, samples enter with the score of their
    batch. After that, each sample of a batch whose score is below the gate may replace a stored
    one, the likelier the more that one is like the others.
    """

    looks_inside = True
    references: int = 32
    gate: float = 1.0

    def adopt(self, state: State, samples: Batch) -> None:
        keep_evenly(state, samples)
        memory = stored(state)
        memory.scores[: memory.filled] = 1.0  # neither like nor unlike the others

    def update(self, state: State, samples: Batch) -> None:
        memory, t = stored(state), state.lesson.t
        stored_ones = memory.sample(self.references)
        score, own = 0.1, None  # nothing to compare with yet
        if stored_ones is not None:
            new = self._gradients(state, samples, total=True)
            old = self._gradients(state, stored_ones, total=False)
            score = 1 + float(batch_cosines(new, old).max())
            if score < self.gate and memory.filled + len(samples) > memory.capacity:
                own = 1 + cosines(new, old).max(1).values.cpu().double().numpy()
        room = min(memory.capacity - memory.filled, len(samples))
        if room:
            entering = slice(memory.filled, memory.filled + room)
            memory.append(rows(samples, torch.arange(room)), task=t)
            memory.scores[entering] = score
        if own is not None:
            self._replace(memory, samples, own, room, task=t)

    def _gradients(self, state: State, samples: Batch, *, total: bool) -> Gradients:
        y = to_device(samples.y, samples.x.device)
        return per_sample(state.net, unaugmented(state, samples.x), y, total=total)

    def _replace(
        self, memory: Memory, samples: Batch, own: Array, first: int, *, task: int
    ) -> None:
        """Replace stored samples one by one, as each draw depends on the replacements before."""
        scores = memory.scores.numpy()
        draws = torch.rand(len(samples), 2, generator=memory.insertion, dtype=torch.float64).numpy()
        placed: dict[int, int] = {}
        for row in range(first, len(samples)):
            ladder = np.cumsum(scores)
            victim = min(
                int(np.searchsorted(ladder, draws[row, 0] * ladder[-1], "right")), len(scores) - 1
            )
            if draws[row, 1] * (scores[victim] + own[row]) < scores[victim]:
                scores[victim] = own[row]
                placed[victim] = row
        slots, chosen = (np.array(list(part), np.int64) for part in (placed, placed.values()))
        memory.put(slots, samples, chosen, task=task)

    def __str__(self) -> str:
        return "gradient-greedy"
