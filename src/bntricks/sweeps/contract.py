"""Does code of a user's own keep what is promised of a run? All that it registers is tried in small
runs, which must end in the same bits however they are made.

What is promised is in docs/guarantees.md. The package's own methods, layers and streams keep the
same contract.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from bntricks.batch import batch_count
from bntricks.errors import PlannedError, UserError
from bntricks.methods import METHODS
from bntricks.networks.head import HEADS
from bntricks.networks.norms import NORMS
from bntricks.networks.registry import NETWORKS
from bntricks.norm import ema_reach, undeclared
from bntricks.plugins.registry import Registry
from bntricks.recipes.corrections import CORRECTIONS
from bntricks.recipes.recalibrations import RECALIBRATIONS
from bntricks.runs.check import SMALL, check_parts, in_a_line, interrupted
from bntricks.runs.config import Config
from bntricks.runs.describe import digest
from bntricks.runs.evaluation import Outcome
from bntricks.runs.norms import sample_layer
from bntricks.runs.request import Request, Track
from bntricks.runs.resolve import resolve
from bntricks.runs.train import build, train
from bntricks.seeds import borrowed_generators, seed_globally
from bntricks.streams import OnProgress, Stream
from bntricks.streams.registry import OPENERS, STREAMS
from bntricks.sweeps.estimate import step_seconds
from bntricks.sweeps.local import Failure, sweep
from bntricks.system.pretend import pretend
from bntricks.training.checkpoint import pack, unpack
from bntricks.training.learner import Learner
from bntricks.training.optimisers import OPTIMISERS
from bntricks.training.schedules import SCHEDULES

Part = Literal[
    "again", "every-step", "interrupted", "loaded", "study", "devices", "options", "threads"
]
PARTS: tuple[Part, ...] = get_args(Part)

KINDS: dict[str, Registry[Any]] = {
    "method": METHODS,
    "stream": OPENERS,
    "net": NETWORKS,
    "norm": NORMS,
    "head": HEADS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "correct": CORRECTIONS,
    "recalibrate": RECALIBRATIONS,
}
"""What can be registered, by the option that chooses it."""

LARGEST = 32
"""Pixels: a stream with larger images is tried on smaller ones."""
OTHER_SEED = 20261
"""Of global generators, which no run depends on."""
QUICK_MOMENTUM = 0.99
"""φ has forgotten a batch after ten steps."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A registered entry, and the option that chooses it."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one part of the contract for a subject."""

    subject: Subject
    part: Part
    outcome: Literal["kept", "broken", "reported", "not here"] = "kept"
    note: str = ""
    seconds: float = 0.0


def subjects(names: Sequence[str] = ()) -> list[Subject]:
    """List what a user has registered, or these names; by default all that ships."""
    found = [Subject(kind, name) for kind, registry in KINDS.items() for name in registry.entries()]
    if unknown := set(names) - {subject.name for subject in found}:
        raise UserError(f"nothing of this name is registered: {', '.join(sorted(unknown))}")
    if names:
        return [subject for subject in found if subject.name in names]
    own = [subject for subject in found if not KINDS[subject.kind].is_built_in(subject.name)]
    return own or found


def check_contract(
    chosen: Sequence[Subject],
    *,
    parts: Sequence[str] = (),
    data: Path | None = None,
    report: OnProgress = lambda what, done, total: None,
) -> Iterator[Finding]:
    """Try each subject in small runs, in all parts of the contract or some."""
    check_parts(parts, PARTS)
    for done, subject in enumerate(chosen):
        report(f"{subject.kind} {subject.name}", done, len(chosen))
        yield from _findings(subject, [part for part in PARTS if not parts or part in parts], data)


def _findings(subject: Subject, parts: Sequence[Part], data: Path | None) -> Iterator[Finding]:
    if subject.kind == "stream" and data is None and STREAMS[subject.name].data != "embedded":
        note = "its images are not here: give the folder that has them"
        yield from (Finding(subject, part, "not here", note) for part in parts)
        return
    trial: _Trial | None = None
    for part in parts:
        start = time.perf_counter()
        finding = Finding(subject, part)
        try:
            trial = trial or _Trial.of(subject, data)
            finding = CHECKS[part](trial, finding)
        except Exception as error:  # whatever code of a user's does
            finding = replace(finding, outcome="broken", note=in_a_line(error))
        yield replace(finding, seconds=time.perf_counter() - start)
        if trial is None:  # it cannot even be trained
            return


@dataclass(frozen=True, slots=True)
class _Trial:
    """A small run of a subject, and its result in this process."""

    config: Config
    """As it was asked for."""
    used: Config
    stream: Stream
    data: Path | None
    expected: dict[str, Any]
    learner: Learner

    @classmethod
    def of(cls, subject: Subject, data: Path | None) -> _Trial:
        config = Config.of(**{"method": "er-bnt", **SMALL, subject.kind: subject.name})
        if STREAMS[config.stream].image_size > LARGEST:
            config = config.model_copy(update={"image_size": LARGEST})
        try:
            stream, used = resolve(config, data)
        except UserError:  # a layer without running statistics, or with a balance of its own
            if subject.kind != "norm" or undeclared(sample_layer(config)):
                raise
            config = config.model_copy(update={"method": "er"})
            stream, used = resolve(config, data)
        outcome = train(used, stream)
        return cls(config, used, stream, data, _ending(outcome), outcome.learner)


def _compared(finding: Finding, expected: dict[str, Any], ending: dict[str, Any]) -> Finding:
    """Return the finding, broken if a run ended differently."""
    other = [name for name, value in expected.items() if ending[name] != value]
    if not other:
        return finding
    return replace(finding, outcome="broken", note=f"different bits: {', '.join(other)}")


def _again(trial: _Trial, finding: Finding) -> Finding:
    with borrowed_generators():
        seed_globally(OTHER_SEED)
        return _compared(finding, trial.expected, _ending(train(trial.used, trial.stream)))


def _every_step(trial: _Trial, finding: Finding) -> Finding:
    """Compare tracking in every step with deferred tracking, in tasks long enough for that."""
    stream, used = trial.stream[:2], trial.used
    net = trial.learner.net
    with suppress(UserError):  # unless the network has a momentum of its own
        quick = resolve(used.model_copy(update={"momentum": QUICK_MOMENTUM}), trial.data)[1]
        net, used = build(quick, stream).net, quick
    steps = min(batch_count(len(task.train), used.batch) for task in stream)
    epochs = 2 + (ema_reach(net) or 0) // steps
    used = used.model_copy(update={"epochs": epochs})
    deferred, every = (
        _ending(train(used, stream, Request(track=track))) for track in get_args(Track)
    )
    return _compared(finding, deferred, every)


def _interrupted(trial: _Trial, finding: Finding) -> Finding:
    return _compared(finding, trial.expected, _ending(interrupted(trial.used, trial.stream)))


def _loaded(trial: _Trial, finding: Finding) -> Finding:
    """Check that a fresh learner with the saved state of another answers alike."""
    loaded = build(trial.used, trial.stream)
    loaded.load_state_dict(unpack(pack(trial.learner.state_dict())))
    x = trial.stream[0].test.x
    if torch.equal(loaded.scores(x), trial.learner.scores(x)):
        return finding
    return replace(finding, outcome="broken", note="other scores on the same images")


def _study(trial: _Trial, finding: Finding) -> Finding:
    step_seconds(trial.used, trial.stream)
    with tempfile.TemporaryDirectory() as folder:
        request = Request(data=trial.data, out=Path(folder))
        [result] = sweep([trial.config], request, workers=1)
    if isinstance(result, Failure):
        raise result.error
    return _compared(
        finding, trial.expected, {**(result.digest or {}), "accuracy": _listed(result.accuracy)}
    )


def _devices(trial: _Trial, finding: Finding) -> Finding:
    for kind in ("cuda", "mps"):
        config = trial.config.model_copy(update={"device": kind})
        with pretend(kind):
            stream, used = resolve(config, trial.data)
            try:
                train(used, stream)
            except Exception as error:
                raise RuntimeError(f"{kind}: {in_a_line(error)}") from error
    return finding


def _options(trial: _Trial, finding: Finding) -> Finding:
    """Check that each option changes what is learned or tested, or is refused."""
    if finding.subject.kind != "stream":
        return replace(finding, outcome="not here", note="it is no stream")
    before, ignored = trial.stream.fingerprint, []
    for name, options in _other_options(trial.stream).items():
        config = Config.of(**(trial.config.model_dump() | options))
        try:
            stream, _ = resolve(config, trial.data)
        except PlannedError:
            continue
        if stream.fingerprint == before and _cut(stream) == _cut(trial.stream):
            ignored.append(name)
    if not ignored:
        return finding
    return replace(finding, outcome="broken", note=f"without effect: {', '.join(ignored)}")


def _other_options(stream: Stream) -> dict[str, dict[str, Any]]:
    """Return values of each option that this stream does not have."""
    other = 2 if all(len(task.classes) == 1 for task in stream) else 1
    images = max(int(task.train.y.bincount().max()) for task in stream)
    return {
        "images_per_class": {"images_per_class": max(1, images // 2)},
        "classes_per_task": {"classes_per_task": other},
        "image_size": {"image_size": 16 if stream.shape[1] == 12 else 12},
        "class_order": {"class_order": [*reversed(stream.class_names)]},
        "first, increment": {"first": other, "increment": 1},
        "blurry": {"blurry": 0.3},
        "validation": {"validation": 0.4},
        "held_out": {"held_out": 0.5},
    }


def _threads(trial: _Trial, finding: Finding) -> Finding:
    try:
        config = trial.used.model_copy(update={"threads": 2})
        ending = _ending(train(config, trial.stream))
    finally:
        torch.set_num_threads(trial.used.threads)
    same = "the same bits" if ending == trial.expected else "different bits"
    return replace(finding, outcome="reported", note=same)


CHECKS: dict[Part, Callable[[_Trial, Finding], Finding]] = {
    "again": _again,
    "every-step": _every_step,
    "interrupted": _interrupted,
    "loaded": _loaded,
    "study": _study,
    "devices": _devices,
    "options": _options,
    "threads": _threads,
}


def _ending(outcome: Outcome) -> dict[str, Any]:
    return {**digest(outcome.learner), "accuracy": _listed(outcome.accuracy)}


def _listed(matrix: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    return [list(row) for row in matrix]


def _cut(stream: Stream) -> list[Any]:
    """Describe which classes come when, with how many images of which size."""
    return [
        (task.classes, len(task.train), len(task.test), tuple(task.train.x.shape[1:]))
        for task in stream
    ]
