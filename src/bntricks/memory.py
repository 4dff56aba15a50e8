"""The memory M: a struct of tensors.

A memory keeps raw samples, in the dtype they come in. The first `filled` slots hold one each; slots
beyond are never read. Labels, ids and tasks are on the host, samples and logits on the device.
Nothing here knows of recipes: it works alone, in any loop.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from bntricks.batch import Batch
from bntricks.seeds import generator
from bntricks.system.devices import take, to_device


class Memory:
    """Up to `capacity` samples, with a generator for insertion and one for sampling, by default
    those of seed 0."""

    def __init__(
        self,
        capacity: int,
        *,
        insertion: Generator | None = None,
        sampling: Generator | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a memory of {capacity} samples keeps nothing: give at least 1")
        self.capacity = capacity
        self.device = torch.device(device)
        self.insertion = generator(0, "memory_insertion") if insertion is None else insertion
        self.sampling = generator(0, "memory_sampling") if sampling is None else sampling
        self.filled = 0
        self.offered = 0  # samples ever presented, every epoch anew
        self.x: Tensor | None = None  # [capacity, ...]
        self.logits: Tensor | None = None  # [capacity, C], NaN where the head has grown since
        self.y = torch.zeros(capacity, dtype=torch.int64)
        self.ids = torch.zeros(capacity, dtype=torch.int64)
        self.tasks = torch.zeros(capacity, dtype=torch.int64)
        # Of GSS, similarity to the rest; of a reservoir for each class, the number drawn.
        self.scores = torch.zeros(capacity, dtype=torch.float64)

    def __len__(self) -> int:
        return self.filled

    def to(self, device: str | torch.device) -> None:
        """Move what is stored to this device, where samples will be from now on."""
        self.device = torch.device(device)
        self.x, self.logits = (
            None if store is None else to_device(store, self.device)
            for store in (self.x, self.logits)
        )

    def add(self, batch: Batch, *, task: int = 0) -> None:
        """Keep every sample ever offered with equal probability (reservoir sampling).

        The n-th sample (from 0) goes to slot n while there is room, and then to a slot r drawn
        from {0..n}, if there is a slot r. Drawn for the whole batch at once; where two samples
        of a batch fall on one slot the later stays, as if they had come one by one.
        """
        n = self.offered + np.arange(len(batch))
        # Drawn for every sample, needed or not: equal seeds decide alike in every method.
        share = torch.rand(len(batch), generator=self.insertion, dtype=torch.float64).numpy()
        slots = np.where(n < self.capacity, n, (share * (n + 1)).astype(np.int64))
        rows = np.flatnonzero(slots < self.capacity)
        _, last = np.unique(slots[rows][::-1], return_index=True)
        rows = rows[len(rows) - 1 - last]
        self.put(slots[rows], batch, rows, task=task)
        self.offered += len(batch)

    def add_by_class(self, batch: Batch, count: int, *, task: int = 0) -> None:
        """Keep `count` samples of each class, every one ever offered with equal probability: each
        draws a number, and those with the smallest stay."""
        drawn = torch.rand(len(batch), generator=self.insertion, dtype=torch.float64).tolist()
        for row, (label, number) in enumerate(zip(batch.y.tolist(), drawn, strict=True)):
            own = np.flatnonzero(self.y[: self.filled].numpy() == label)
            slot = self.filled if len(own) < count else int(own[self.scores[own].argmax()])
            if slot == self.capacity:
                raise ValueError(
                    f"a memory of {slot} samples has no room for {count} of each class"
                )
            if slot == self.filled or number < self.scores[slot]:
                self.put(np.array([slot]), batch, np.array([row]), task=task)
                self.scores[slot] = number
        self.offered += len(batch)

    def put(
        self, slots: np.ndarray[Any, Any], batch: Batch, rows: np.ndarray[Any, Any], *, task: int
    ) -> None:
        """Write these rows of a batch into these slots, all different."""
        if not len(slots):
            return
        to, of = torch.from_numpy(slots), torch.from_numpy(rows)
        self.x = self._write(self.x, to, batch.x, of)
        if batch.logits is not None:
            store = _widened(self.logits, batch.logits.shape[1])
            self.logits = self._write(store, to, batch.logits, of)
        self.y[to] = batch.y[of].cpu()
        if batch.ids is not None:
            self.ids[to] = batch.ids[of].cpu()
        self.tasks[to] = task
        self.filled = max(self.filled, int(slots.max()) + 1)

    def append(self, batch: Batch, *, task: int) -> None:
        """Write a batch into the next free slots; there must be room."""
        slots = np.arange(self.filled, self.filled + len(batch))
        self.put(slots, batch, np.arange(len(batch)), task=task)

    def keep(self, slots: np.ndarray[Any, Any]) -> None:
        """Drop all but these slots, which move up in the order given."""
        kept = torch.from_numpy(slots)
        for store in (self.x, self.logits, self.y, self.ids, self.tasks, self.scores):
            if store is not None:
                store[: len(kept)] = take(store, kept, store.device)
        self.filled = len(kept)

    @property
    def distinct(self) -> int:
        """The number of different samples, by task and id. A reservoir that is offered the same
        sample in every epoch may hold it more than once."""
        filled = slice(self.filled)
        return len(set(zip(self.tasks[filled].tolist(), self.ids[filled].tolist(), strict=True)))

    def of_task(self, task: int) -> np.ndarray[Any, Any]:
        """List the slots that hold samples of this task."""
        return np.flatnonzero(self.tasks[: self.filled].numpy() == task)

    def sample(self, n: int, *, before: int | None = None) -> Batch | None:
        """Draw up to n distinct slots, perhaps of tasks before `before`; None if there are none."""
        earlier = None
        if before is not None:
            earlier = torch.from_numpy(np.flatnonzero(self.tasks[: self.filled].numpy() < before))
        count = self.filled if earlier is None else len(earlier)
        if count == 0:
            return None
        drawn = torch.randperm(count, generator=self.sampling)[:n]
        return self.read(drawn if earlier is None else earlier[drawn])

    def read(self, slots: Tensor) -> Batch:
        """Return the samples in these slots."""
        assert self.x is not None
        on_device = to_device(slots, self.device)
        logits = None if self.logits is None else self.logits[on_device]
        return Batch(
            self.x[on_device],
            self.y[slots],
            logits,
            ids=self.ids[slots],
            stored=self.tasks[slots],
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the generators, which the memory was given."""
        return {name: getattr(self, name) for name in self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a memory of this capacity, from all of its slots or the filled ones alone."""
        if unknown := sorted(set(state) - set(self._state)):
            raise ValueError(f"{unknown[0]} is not part of a memory")
        capacity, filled, offered = (int(state[name]) for name in ("capacity", "filled", "offered"))
        if capacity != self.capacity:
            raise ValueError(
                f"the saved memory has capacity {capacity}, this one has {self.capacity}"
            )
        if not 0 <= filled <= capacity or offered < 0:
            raise ValueError(f"{filled} samples do not fit a memory of {capacity}")
        for name in self._kept:
            setattr(self, name, self._placed(name, state.get(name), filled))
        self.filled, self.offered = filled, offered

    _kept = ("x", "logits", "y", "ids", "tasks", "scores")
    _state = ("capacity", "filled", "offered", *_kept)

    def _placed(self, name: str, values: Tensor | None, filled: int) -> Tensor | None:
        """Check the saved tensor of this name, and add room for the empty slots."""
        own: Tensor | None = getattr(self, name)
        if values is None:
            if name in ("x", "y") and filled:
                raise ValueError(f"a memory of {filled} samples has no {name}")
            return None if name in ("x", "logits") else torch.zeros_like(getattr(self, name))
        dtype = torch.float32 if name == "logits" else values.dtype if own is None else own.dtype
        fits = own is None or name == "logits" or values.shape[1:] == own.shape[1:]
        if not fits or len(values) not in (filled, self.capacity) or values.dtype != dtype:
            raise ValueError(
                f"saved {name} has shape {list(values.shape)} or a dtype that does not match this "
                "memory"
            )
        device = self.device if name in ("x", "logits") else torch.device("cpu")
        if len(values) == self.capacity:
            return values.to(device, copy=True)
        placed = torch.zeros(self.capacity, *values.shape[1:], dtype=dtype, device=device)
        placed[:filled] = values.to(device)
        return placed

    def _write(self, store: Tensor | None, to: Tensor, values: Tensor, of: Tensor) -> Tensor:
        chosen = take(values.detach(), of, self.device)
        if store is None:
            store = chosen.new_zeros(self.capacity, *chosen.shape[1:])
        return store.index_copy_(0, to_device(to, self.device), chosen)


def _widened(logits: Tensor | None, width: int) -> Tensor | None:
    """Add NaN for the outputs by which the head has grown since these logits were stored."""
    if logits is None or logits.shape[1] >= width:
        return logits
    return F.pad(logits, (0, width - logits.shape[1]), value=torch.nan)
