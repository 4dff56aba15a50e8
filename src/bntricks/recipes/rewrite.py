"""BN Tricks as a rewrite of recipes: the paper's claim of generality, as a function (Sec. 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bntricks.errors import UserError
from bntricks.recipes.language import (
    BM,
    BM2,
    Bb,
    Bmix,
    Bp,
    Bt,
    Copies,
    Method,
    Source,
    Term,
    Union,
    Update,
    balanced,
)


def bn_tricks(method: Method) -> Method:
    """The BN Tricks form of a rehearsal method.

    φ follows the balanced batch alone; a union is trained on in separate passes; one memory
    batch serves all terms. A memory that is filled only when a task ends holds no new samples,
    so the balanced batch takes its place as test-simulator, as in Algorithm 2. A method that
    already names the batch its φ follows is returned as it is.
    """
    if method.ema is not None:
        return method
    if not method.replayed or method.memory is None:
        raise UserError(
            "this method replays nothing, so BN Tricks has no batch to balance: "
            "it needs a memory, and a loss on BM, BM2, Bp or Bmix"
        )
    ema = balanced(Bt, Bp) if method.replayed == {Bp} else Bb
    simulate = method.memory.fills == "task end"

    def rewrite(term: Term) -> Iterator[Term]:
        parts = tuple(_parts(term.source))
        for part in parts:
            if simulate and part in (Bt, Bmix):
                yield replace(term, source=Bt)
                yield replace(term, source=ema, shared=True)
            elif not simulate or len(parts) == 1:
                yield replace(term, source=BM if part == BM2 else part)

    updates = [Update(tuple(new for t in u.terms for new in rewrite(t))) for u in method.updates]
    return replace(method, ema=ema, updates=updates, together=False)


def _parts(source: Source) -> Iterator[Source]:
    match source:
        case Union(left, right):
            yield from _parts(left)
            yield from _parts(right)
        case Copies(of):
            yield of
        case _:
            yield source
