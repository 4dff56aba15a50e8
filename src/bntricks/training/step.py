"""One training step, which carries out a recipe (Algorithms 1 and 2 of the paper are instances).

The order is the paper's: draw the batches, move φ with the parameters before the update, pass each
batch through the network, step θ, update the memory. When a recipe names its `ema` batch, φ moves
exactly once a step, by that batch and by no other pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce
from operator import or_

import torch
from torch import Tensor

from bntricks.batch import Batch, balance, blend, copies
from bntricks.networks.norms.variant import penalty
from bntricks.norm import BatchNorms, among, ema_reach, frozen_ema, modules, skip_ema, update_ema
from bntricks.recipes.averages import follow, targets
from bntricks.recipes.language import (
    BM,
    BM2,
    Balanced,
    Blended,
    Bmix,
    Bp,
    Bt,
    Copies,
    Pass,
    Source,
    Term,
    Union,
    Update,
)
from bntricks.system.devices import take
from bntricks.training.optimisers import clip
from bntricks.training.randomness import NOTHING
from bntricks.training.state import State

TRACKING = "track"
"""The name of the pass that is kept for its statistics alone."""


def step(state: State, raw: Batch, *, horizon: int | None = None) -> Tensor:
    """Learn from one batch of raw samples; return the loss, still on the device.

    `horizon` is the number of steps, this one included, until φ is next read. A tracking pass
    further from that read than `ema_reach` is left out: φ comes out the same bits without it.
    """
    found = modules(state.net)
    norms = among(found)  # in each step, as layers may have been replaced
    others = (state.view, state.optimiser, *state.observers)
    drawn = state.randomness.look(found, state.method, *others)
    with state.randomness.borrowed(state.device) if drawn else NOTHING:
        return _step(state, raw, norms, horizon)


def _step(state: State, raw: Batch, norms: BatchNorms, horizon: int | None) -> Tensor:
    method, draws = state.method, Draws(state, raw)
    tracked = None if method.ema is None else draws.batch(method.ema)
    if tracked is not None and not any(draws.batch(s) is tracked for s in method.sources):
        _track(state, norms, tracked, horizon)
    else:
        draws.tracked = tracked
        if state.since_skip is not None:
            state.since_skip += 1
    for index, observer in enumerate(state.observers):
        with state.running(f"observer {index}"):
            observer.step(draws, horizon)

    for number, update in enumerate(method.updates):
        with state.running(f"update {number}"):
            _update(state, draws, norms, number, update)
    state.cost.steps += 1
    state.randomness.step += 1

    if method.memory is not None and method.memory.fills == "step":
        with state.running("memory"):
            method.memory.update(state, replace(raw, logits=draws.outputs))
    follow(state)
    return state.ranks.add(draws.loss)


def _update(state: State, draws: Draws, norms: BatchNorms, number: int, update: Update) -> None:
    """Make one step of the optimiser."""
    project = state.method.project
    with project(draws) if project else nullcontext():
        passes = _passes(draws, update)
        state.optimiser.zero_grad()
        for batch, parts in passes:
            state.count(batch)
            part, share = state.ranks.part(batch)
            # Ranks that split a batch drop out differently; a whole batch is the same on all.
            rank = "" if part is batch else f" on {state.ranks.rank}"
            with state.passing(_pass_name(number, parts) + rank):
                _train_on(state, draws, norms, (batch, part, share), parts)
        if state.ranks.size > 1:
            slopes = (parameter.grad for parameter in state.net.parameters())
            state.ranks.add_all([slope for slope in slopes if slope is not None])
    if passes:
        if state.options.clip is not None:
            clip(state.net.parameters(), state.options.clip)
        state.optimiser.step()


def _train_on(
    state: State,
    draws: Draws,
    norms: BatchNorms,
    shared: tuple[Batch, Batch, float],
    parts: Parts,
) -> None:
    """Pass a batch, or this rank's part of it, forwards and backwards."""
    batch, part, share = shared
    with _tracking(state, norms, batch, draws.tracked):
        whole = _forward(state, norms, part, [t for _, terms in parts for t in terms])
    whole = replace(whole, labels=batch.y)
    state.cost.images += len(batch) - len(part)  # what the other ranks pass
    if batch is draws.tracked:
        draws.tracked = None  # φ moves once, however often its batch is trained on
    losses = []
    for (own, terms), seen in zip(parts, _split(whole, parts), strict=True):
        losses += [share * _weight(state, term) * term.loss.value(seen) for term in terms]
        if own is draws.current:
            draws.outputs = state.ranks.whole(seen.logits.detach(), len(own))
    if (extra := penalty(norms)) is not None:
        losses.append(extra)
    loss = torch.stack(losses).sum()
    if loss.requires_grad:  # a loss may be constant
        loss.backward()  # type: ignore[no-untyped-call]
    draws.loss += loss.detach()


class Draws:
    """The batches of one step; each symbol is drawn once, on first use."""

    def __init__(self, state: State, raw: Batch) -> None:
        self.state = state
        with state.running("view B_t"):
            view = state.view(raw.x, state.stream_augmentation)
        self.current = current = self._taught(Bt, replace(raw, x=view))
        self.tracked: Batch | None = None
        """The batch whose training pass is to move φ; None once it has."""
        self.outputs: Tensor | None = None
        """The network's outputs on the current batch."""
        self.loss = torch.zeros((), device=raw.x.device)
        """The sum of the losses of all passes so far."""
        self.drawn: dict[Source, Batch | None] = {Bt: current, Bmix: current}

    def batch(self, source: Source) -> Batch | None:
        """Return the batch of a symbol in this step; None while the memory is empty."""
        if source not in self.drawn:
            self.drawn[source] = self._draw(source)
        return self.drawn[source]

    def pass_of(self, batch: Batch) -> str:
        """Name the first pass that trains on this batch, or else the one that tracks it."""
        for number, update in enumerate(self.state.method.updates):
            for own, parts in _passes(self, update):
                if own is batch:
                    return _pass_name(number, parts)
        return TRACKING

    def _draw(self, source: Source) -> Batch | None:
        lesson = self.state.lesson
        match source:
            case Union(left, right):
                first, second = self.batch(left), self.batch(right)
                return first | second if first and second else first or second
            case Balanced(current, memory):
                batch, replay = self.batch(current), self.batch(memory)
                assert batch is not None
                rule = self.state.options.balance
                return balance(batch, replay, new=lesson.new, old=lesson.old, rule=rule)
            case Blended(of, alpha):
                batch = self.batch(of)
                return batch and blend(batch, alpha, self.state.replay_augmentation)
            case Copies(of):
                batch = self.batch(of)
                return copies(batch, lesson.t - 1) if batch and lesson.t > 2 else batch
            case _ if source in (BM, BM2):
                return self._replay(source, before=None)
            case _ if source == Bp:
                return self._replay(source, before=lesson.t)
        raise ValueError(f"{source} is no batch of a step")

    def _replay(self, source: Source, before: int | None) -> Batch | None:
        state = self.state
        if state.memory is None:
            return None
        raw = state.memory.sample(state.options.memory_batch, before=before)
        if raw is None:
            return None
        with state.running(f"view {source}"):
            replay = replace(raw, x=state.view(raw.x, state.replay_augmentation))
        if state.averages and len(replay) > 1:  # one sample has no variance
            with state.passing(f"targets {source}"):
                return replace(replay, logits=targets(state, replay))
        return self._taught(source, replay)

    def _taught(self, source: Source, batch: Batch) -> Batch:
        """Add the teacher's outputs to a batch, if the recipe has a teacher."""
        state = self.state
        if state.teacher is not None:
            teaching = state.passing(f"teacher {source}")
            with teaching, torch.no_grad(), state.arithmetic(batch.x):
                return replace(batch, logits=state.teacher(batch.x).float())
        if state.recorded is not None and batch.ids is not None:
            return replace(batch, logits=take(state.recorded, batch.ids, batch.x.device))
        return batch


Parts = list[tuple[Batch, list[Term]]]
"""The batches of a forward, one after the other, with the terms on each."""


def _passes(draws: Draws, update: Update) -> list[tuple[Batch, Parts]]:
    """List the forwards of an update: terms on one batch share one; lone samples get none."""
    by_batch: dict[int, tuple[Batch, list[Term]]] = {}
    for term in update.terms:
        batch = draws.batch(term.source)
        if batch is not None and len(batch) > 1:  # one sample has no variance
            by_batch.setdefault(id(batch), (batch, []))[1].append(term)
    parts = list(by_batch.values())
    if draws.state.method.together and parts:
        return [(reduce(or_, (batch for batch, _ in parts)), parts)]
    return [(batch, [(batch, terms)]) for batch, terms in parts]


def _pass_name(number: int, parts: Parts) -> str:
    return f"update {number} {parts[0][1][0].source}"


def _split(whole: Pass, parts: Parts) -> list[Pass]:
    """Split a forward into what the terms on each part see."""
    if len(parts) == 1:
        return [whole]
    sizes = [len(batch) for batch, _ in parts]
    logits = torch.split(whole.logits, sizes)
    features: Sequence[Tensor | None] = [None] * len(parts)
    if whole.seen_by_head is not None:
        features = torch.split(whole.seen_by_head, sizes)
    return [
        replace(whole, batch=batch, logits=own, seen_by_head=seen, labels=batch.y)
        for (batch, _), own, seen in zip(parts, logits, features, strict=True)
    ]


def _track(state: State, norms: BatchNorms, batch: Batch, horizon: int | None) -> None:
    """Move φ (Algorithm 1, line 4), unless its next read is too far away for a difference."""
    reach = None if state.method.reads_ema else ema_reach(norms)
    if horizon is None or reach is None or horizon <= reach:
        part, _ = state.ranks.part(batch)
        rank = "" if part is batch else f" on {state.ranks.rank}"
        with (
            state.passing(TRACKING + rank),
            state.arithmetic(part.x),
            state.ranks.tracking(state.net, len(batch)),
        ):
            update_ema(state.net, part.x)
        state.cost.tracking_forwards += 1
        state.cost.images += len(batch)
        if state.since_skip is not None:
            state.since_skip += 1
    else:
        skip_ema(norms)
        state.cost.tracking_skipped += 1
        state.since_skip = 0
    owed = state.since_skip is not None and reach is not None and state.since_skip < reach
    state.guard(norms, stale=owed)


def _tracking(
    state: State, norms: BatchNorms, batch: Batch, tracked: Batch | None
) -> AbstractContextManager[None]:
    if state.method.ema is None or batch is tracked:
        return state.ranks.tracking(state.net, len(batch))
    return frozen_ema(norms)


def _forward(state: State, norms: BatchNorms, batch: Batch, terms: Iterable[Term]) -> Pass:
    features = None
    if any(term.loss.features for term in terms):
        logits, features = state.forward_with_features(batch.x, batch.stored, norms)
    else:
        logits = state.forward(batch.x, batch.stored, norms)
    return Pass(logits, batch, state.lesson, state.net, features, options=state.options)


def _weight(state: State, term: Term) -> float:
    if not term.shared:
        return term.weight
    # λ = |M| / |T_t|, 0 while nothing is stored
    return term.weight * (state.memory.capacity / state.lesson.size if state.memory else 0.0)
