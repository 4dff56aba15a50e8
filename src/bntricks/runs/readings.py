"""Which runs are readings of another: those that differ in how labels are read off, or in the batch
that φ follows, train the same θ. One of them is trained, and the others are read off it when a task
is over."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pydantic import ValidationError

from bntricks.errors import UserError
from bntricks.methods import entries, find, make
from bntricks.networks.head import HEADS
from bntricks.networks.registry import is_imported
from bntricks.recipes.classifiers import LINEAR
from bntricks.recipes.corrections import CORRECTIONS
from bntricks.recipes.language import Method
from bntricks.recipes.options import READINGS
from bntricks.recipes.rewrite import with_options
from bntricks.runs.config import Config
from bntricks.runs.norms import check_norm, reads_phi


def recipe(config: Config) -> Method:
    """Return the method of a run, with what its options add."""
    method = with_options(make(config.method, **config.hyper), config)
    _check_head(config, method)
    return method


def trunk(config: Config) -> Config:
    """Return the run whose network this one is read off, which is itself if it must be trained. A
    method with another φ is also trained if it is run by its own name."""
    if config.correct in READINGS:
        return config.model_copy(update={"correct": "none"})
    return config.model_copy(update={"method": _siblings(config)[0]})


def name_of(config: Config) -> str:
    """Return the name of this run among the readings of its trunk."""
    return config.correct if config.correct in READINGS else config.method


def readings(config: Config) -> dict[str, Method]:
    """Return every other method that can be read off the θ that this run trains, by name."""
    others = {
        name: make(name, **config.hyper) for name in _siblings(config) if name != config.method
    }
    if config.correct == "none" and config.ranks == 1:
        for name in READINGS:
            with suppress(UserError):  # this correction does not apply
                others[name] = recipe(config.model_copy(update={"correct": name}))
        others |= _other_trackers(config)
    return others


def _other_trackers(config: Config) -> dict[str, Method]:
    """Return methods that differ from this one only in the batch that φ follows, if φ does not
    affect θ and no further batch must be drawn. A user's network may normalise in any way."""
    own = recipe(config)
    feels_phi = own.lets_phi_reach_theta or reads_phi(config) or is_imported(config.net)
    if feels_phi or config.compile:
        return {}
    drawn = {symbol for source in own.sources for symbol in source.symbols()}
    others = {}
    for name in _alike(config, lambda method: replace(method, ema=None)):
        other = make(name, **config.hyper)
        if other.ema not in (None, own.ema) and drawn.issuperset(other.ema.symbols()):
            with suppress(UserError):  # the norm has no φ, or moves φ by itself
                check_norm(config, other)
                others[name] = other
    return others


def _siblings(config: Config) -> list[str]:
    """List the methods that differ from this one only in the classifier."""
    return _alike(config, lambda method: replace(method, classify=LINEAR))


def _alike(config: Config, common: Callable[[Method], Method]) -> list[str]:
    """List this method, and other ones for which `common` returns the same."""
    hyper = {**find(config.method).hyper(config.stream), **config.hyper}
    own = make(config.method, **hyper)
    names = []
    for entry in entries().values():
        if entry.hyper().keys() == hyper.keys():
            with suppress(ValidationError):  # narrower range
                other = entry.factory(**hyper)
                alike = common(other) == common(own)
                if entry.name == config.method or (alike and other != own):
                    names.append(entry.name)
    return names


def _check_head(config: Config, method: Method) -> None:
    HEADS.find(config.head)
    if config.head == "linear":
        return
    if config.head == "cosine" and CORRECTIONS.find(config.correct).compares_lengths:
        raise UserError(
            "it compares the lengths of weights, which a cosine head leaves out: choose another "
            "correction, or the linear head",
            option="correct",
            value=config.correct,
        )
    if method.memory is not None and method.memory.looks_inside:
        raise UserError(
            f"{config.method} takes the gradients of single images through a linear layer: choose "
            "the linear head",
            option="head",
            value=config.head,
        )
