"""Rewrites of recipes: BN Tricks (paper, Sec. 5), and what others do about the same bias."""

from collections.abc import Iterator
from dataclasses import replace

from bntricks.errors import UserError
from bntricks.recipes.classifiers import LINEAR
from bntricks.recipes.corrections import CORRECTIONS
from bntricks.recipes.language import (
    BM,
    BM2,
    Bb,
    Blended,
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
    blended,
)
from bntricks.recipes.options import RecipeOptions
from bntricks.recipes.recalibrations import RECALIBRATIONS, leave


def bn_tricks(method: Method) -> Method:
    """Return the BN Tricks form of a rehearsal method.

    φ follows the balanced batch alone; the parts of a union are trained on in separate passes; one
    memory batch serves all terms. A memory that is filled only when a task ends holds no new
    samples, so the balanced batch replaces it as test-simulator, as in Algorithm 2, unless an
    update trains on it anyway. A method that names the batch its φ follows is returned as it is.
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

    def rewrite(term: Term, *, simulated: bool) -> Iterator[Term]:
        source = term.source
        alpha = source.alpha if isinstance(source, Blended) else 0.0
        parts = tuple(_parts(_unblended(source)))
        for part in parts:
            if simulate and part in (Bt, Bmix):
                yield replace(term, source=blended(Bt, alpha))
                if not simulated:
                    yield replace(term, source=blended(ema, alpha), shared=True)
            elif not simulate or len(parts) == 1:
                yield replace(term, source=blended(BM if part == BM2 else part, alpha))

    def rewritten(update: Update) -> Update:
        simulated = any(_unblended(term.source) == ema for term in update.terms)
        return Update(tuple(t for term in update.terms for t in rewrite(term, simulated=simulated)))

    updates = tuple(map(rewritten, method.updates))
    return replace(method, ema=ema, updates=updates, together=False)


def with_options(method: Method, options: RecipeOptions) -> Method:
    """Return the method with what these options add to it."""
    return corrected(recalibrated(method, options.recalibrate), options.correct)


def corrected(method: Method, name: str) -> Method:
    """Return the method with one of `CORRECTIONS` of its head's bias; `none` changes nothing."""
    correction = CORRECTIONS.find(name)
    if name == "none":
        return method
    if method.classify != LINEAR or method.averages:
        raise _refusal(name, "it corrects the layer that was trained, and another one predicts")
    if method.joint:
        raise _refusal(name, "all tasks are learned at once, so no class is older than another")
    if correction.needs_memory and method.memory is None:
        raise _refusal(name, "it looks at stored samples of old classes, and this method has none")
    return correction.applied(method, name)


def recalibrated(method: Method, how: str = "memory") -> Method:
    """Return the method with φ set by one of `RECALIBRATIONS` whenever a task is over."""
    stage = RECALIBRATIONS.find(how)
    if stage is leave or stage in method.stages:
        return method
    stored = method.memory is not None and method.memory.fills != "task end"
    if getattr(stage, "sets_ema", None) == BM and not stored:
        raise UserError(
            "φ is estimated on the memory when a task is over: choose a method that stores samples "
            "of the task while it learns them",
            option="recalibrate",
        )
    return replace(method, stages=(*method.stages, stage))


def _refusal(name: str, reason: str) -> UserError:
    return UserError(f"{reason}: choose another method, or none", option="correct", value=name)


def _unblended(source: Source) -> Source:
    return source.of if isinstance(source, Blended) else source


def _parts(source: Source) -> Iterator[Source]:
    match source:
        case Union(left, right):
            yield from _parts(left)
            yield from _parts(right)
        case Copies(of):
            yield of
        case _:
            yield source
