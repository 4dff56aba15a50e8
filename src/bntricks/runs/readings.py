"""One training, several readings: runs that differ in how labels are read off train the very same
network. One of them is trained, and the others are read off it whenever a task is over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pydantic import ValidationError

from bntricks.errors import UserError
from bntricks.methods import entries, find, make
from bntricks.recipes.classifiers import LINEAR, Classifier
from bntricks.recipes.language import Method
from bntricks.recipes.rewrite import corrected, recalibrated
from bntricks.runs.config import READINGS, Config


def recipe(config: Config) -> Method:
    """What a run trains by, and how it predicts."""
    method = make(config.method, **config.hyper)
    if config.recalibrate == "memory":
        method = recalibrated(method)
    method = corrected(method, config.correct)
    _check_head(config, method)
    return method


def trunk(config: Config) -> Config:
    """The run whose network this one is read off; itself, if it has to be trained."""
    if config.correct in READINGS:
        return config.model_copy(update={"correct": "none"})
    return config.model_copy(update={"method": _siblings(config)[0]})


def name_of(config: Config) -> str:
    """What a run that is not its own trunk is called among the readings of the one that is."""
    return config.correct if config.correct in READINGS else config.method


def readings(config: Config) -> dict[str, Classifier]:
    """How else labels can be read off the network that this run trains, by name."""
    others = {
        name: make(name, **config.hyper).classify
        for name in _siblings(config)
        if name != config.method
    }
    if config.correct == "none" and config.ranks == 1:
        for name in READINGS:
            with suppress(UserError):  # it does not apply
                others[name] = recipe(config.model_copy(update={"correct": name})).classify
    return others


def _siblings(config: Config) -> list[str]:
    """Methods that differ from this one in the classifier alone, in the order they are listed."""
    hyper = {**find(config.method).hyper(config.stream), **config.hyper}
    own = make(config.method, **hyper)
    names = []
    for entry in entries().values():
        if entry.hyper().keys() == hyper.keys():
            with suppress(ValidationError):  # it allows less
                other = entry.factory(**hyper)
                alike = replace(other, classify=LINEAR) == replace(own, classify=LINEAR)
                if entry.name == config.method or (alike and other != own):
                    names.append(entry.name)
    return names


def _check_head(config: Config, method: Method) -> None:
    if config.head == "linear":
        return
    if config.correct in ("wa", "wa-eval"):
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
