"""Compare a device with the CPU: small lessons on both, and how far the results are apart.

Distances are between two networks that started alike, as a share of the distance that training has
moved one of them. On CUDA, PyTorch itself counts how often a step makes the host wait.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from bntricks.batch import shuffled
from bntricks.errors import PlannedError, UserError
from bntricks.methods import entries, find
from bntricks.model.model import Model
from bntricks.model.options import Protocol
from bntricks.plugins.imports import own_fault
from bntricks.runs.config import Config
from bntricks.runs.evaluation import Outcome
from bntricks.runs.resolve import made_with, resolve
from bntricks.runs.train import build, train
from bntricks.streams import OnProgress, Stream
from bntricks.system.devices import near, take
from bntricks.training.backend import arithmetic, check_device, compile_passes
from bntricks.training.checkpoint import Checkpoints, State
from bntricks.training.learner import Learner

PartName = Literal["methods", "resume", "bf16", "compile", "model", "ranks"]
PARTS: tuple[PartName, ...] = get_args(PartName)

SMALL = {"stream": "seq-digits", "images_per_class": 20, "memory": 20, "batch": 8, "epochs": 1}
SMALL |= {"width": 8, "blocks": 1, "stages": 2, "memory_batch": 8}
TASKS = 2
CLOSE, ROUGHLY = 0.05, 0.2
"""Largest distance of two networks that passes, in float32 and in bfloat16."""
CALLED = "called a synchronizing"
"""In PyTorch's warning about an operation that waits."""
WAITS: dict[str, int] = {"er-bnt": 1, "der++-bnt": 1}
"""How often a step of these methods may make the host wait; for all others, twice."""


@dataclass(frozen=True, slots=True)
class DeviceCheck:
    """The outcome of a check, the distance between device and CPU, and how often a step waits."""

    part: PartName
    name: str
    outcome: Literal["passed", "failed", "not here"] = "passed"
    difference: float | None = None
    waits: float | None = None
    seconds: float = 0.0
    note: str = ""


def check_on(
    device: str,
    *,
    parts: Sequence[str] = (),
    methods: Sequence[str] = (),
    report: OnProgress = lambda what, done, total: None,
) -> Iterator[DeviceCheck]:
    """Check a device, in all parts and with all methods or only with these."""
    check_device(device)
    check_parts(parts, PARTS)
    for name in methods:
        find(name)
    checks: list[tuple[PartName, str, Callable[[str], DeviceCheck]]] = [
        *(("methods", name, partial(_method, name)) for name in methods or entries()),
        ("resume", "er-bnt", _resume),
        ("bf16", "er-bnt", _bf16),
        ("compile", "er-bnt", partial(_option, "compile", {"compile": True}, CLOSE)),
        ("model", Protocol().method, _model),
        ("ranks", "er-bnt", _ranks),
    ]
    checks = [check for check in checks if not parts or check[0] in parts]
    for done, (part, name, function) in enumerate(checks):
        report(f"checking {device}: {part}", done, len(checks))
        start, row = time.perf_counter(), DeviceCheck(part, name)
        try:
            with arithmetic("float32", deterministic=False):
                row = function(device)
        except PlannedError as error:
            row = replace(row, outcome="not here", note=in_a_line(error))
        except Exception as error:  # a device may raise anything
            row = replace(row, outcome="failed", note=in_a_line(error))
        yield replace(row, seconds=time.perf_counter() - start)


def check_parts(chosen: Sequence[str], parts: Sequence[str]) -> None:
    """Refuse parts that there are not."""
    if unknown := ", ".join(sorted(set(chosen) - set(parts))):
        raise UserError(f"choose from {', '.join(parts)}", option="parts", value=unknown)


def _method(name: str, device: str) -> DeviceCheck:
    """Learn two tasks; in the second, the memory is in use."""
    there, waits = _lessons(*_small(method=name, device=device))
    here, _ = _lessons(*_small(method=name))
    allowed = WAITS.get(name, 2)
    row = _compared(DeviceCheck("methods", name, waits=waits), there, here, CLOSE)
    if waits is not None and waits > allowed:
        note = f"a step waits {waits:g} times, where {allowed} would do"
        return replace(row, outcome="failed", note=note)
    return row


def _option(part: PartName, options: dict[str, object], close: float, device: str) -> DeviceCheck:
    there, waits = _lessons(*_small(device=device, **options))
    here, _ = _lessons(*_small())
    return _compared(DeviceCheck(part, "er-bnt", waits=waits), there, here, close)


def _bf16(device: str) -> DeviceCheck:
    """Compare networks, and the time of a step at the paper's size."""
    row = _option("bf16", {"precision": "bf16"}, ROUGHLY, device)
    large = {"width": 64, "blocks": 2, "stages": 4, "image_size": 32, "batch": 32}
    times = [
        _step_seconds(*_small(device=device, precision=precision, memory_batch=32, **large))
        for precision in ("bf16", "float32")
    ]
    note = f"a step at width 64 takes {times[0] / times[1]:.2f} of float32's time"
    return row if row.outcome == "failed" else replace(row, note=note)


def _step_seconds(config: Config, stream: Stream) -> float:
    """Measure a step, the second of two; on the CPU, in this process's time alone."""
    torch.set_num_threads(config.threads)
    on_cpu, learner = config.device == "cpu", build(config, stream)
    clock = time.process_time if on_cpu else time.perf_counter
    task, start = stream[0], 0.0
    learner.begin(task.classes, task.train.x, task.train.y)
    for step in range(3):
        start = clock() if step == 1 else start
        loss = learner.observe(task.train.x[:32], task.train.y[:32], ids=torch.arange(32))
        float(loss)  # a device may still be computing
    return (clock() - start) / 2


def _resume(device: str) -> DeviceCheck:
    config, stream = _small(device=device, batch=4)
    resumed, expected = interrupted(config, stream), train(config, stream)
    return _compared(DeviceCheck("resume", "er-bnt"), resumed.learner, expected.learner, CLOSE)


def interrupted(config: Config, stream: Stream) -> Outcome:
    """Train, stop twice in the middle of a task, and continue each time."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            try:
                stopping = _Stopping(Path(folder), made_with(config, stream), seconds=0)
                train(config, stream, checkpoints=stopping)
            except _StopError:
                continue
            raise AssertionError("the run was not stopped")
        checkpoints = Checkpoints(Path(folder), made_with(config, stream))
        return train(config, stream, checkpoints=checkpoints)


def _model(device: str) -> DeviceCheck:
    """Teach and save a model on the device, and compare its predictions there and on the CPU."""
    _, stream = _small()
    first, second = (
        {stream.class_names[c]: task.train.x[task.train.y == c] for c in task.classes}
        for task in stream
    )
    model = Model.create(first, width=8, blocks=1, stages=2, memory=20, device=device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        for images in (first, second):
            model.learn(images, epochs=1)
            model.save(path)
            model = Model.load(path, device=device)
        on_cpu = Model.load(path)
    x = stream[0].test.x[:64]
    difference = float((model.predict_proba(x) - on_cpu.predict_proba(x)).abs().max())
    return _judged(DeviceCheck("model", Protocol().method, difference=difference), 1e-3)


def _ranks(device: str) -> DeviceCheck:
    """Share a run between two processes."""
    if device == "mps" or ":" in device:
        raise UserError("two processes do not share one GPU: with cuda, each takes its own")
    if device == "cuda" and torch.cuda.device_count() < 2:
        raise UserError("two processes need two GPUs, and there is one")
    flags = {"method": "er-bnt", "device": device, **SMALL}
    words = [w for k, v in flags.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    command = [sys.executable, "-m", "bntricks", "run", "--ranks", "2", *words]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it failed and said nothing"]
        raise RuntimeError(lines[-1].removeprefix("bnt: "))
    return DeviceCheck("ranks", "er-bnt")


def _small(**options: object) -> tuple[Config, Stream]:
    """Return a run of a minute at most, and the first tasks of its stream."""
    stream, config = resolve(Config(**{"method": "er-bnt", **SMALL, **options}), None)  # type: ignore[arg-type]
    return config, stream[:TASKS]


def _lessons(config: Config, stream: Stream) -> tuple[Learner, float | None]:
    """Train a learner; also return how often a step of the last task made the host wait, or None
    where that cannot be counted."""
    torch.set_num_threads(config.threads)
    learner, waits, steps = build(config, stream), 0, 0
    if config.compile:
        compile_passes(learner, stream.shape)
    for task in stream:
        learner.begin(task.classes, task.train.x, task.train.y)
        x, y = learner.mix_in_memory(task.train.x, task.train.y)
        images = near(x, learner.device)
        with _waits() as counted:
            for ids in shuffled(len(y), config.batch, learner.generators.order):
                learner.observe(take(images, ids, learner.device), y[ids], ids=ids)
                steps += 1
        if task is stream[-1]:
            waits = len(counted)
        else:
            steps = 0
        learner.end(task.train.x, task.train.y)
        learner.scores(task.test.x)
    return learner, waits / steps if learner.device.type == "cuda" else None


@contextmanager
def _waits() -> Iterator[list[object]]:
    """Collect PyTorch's warnings about waiting for a CUDA device."""
    waits: list[object] = []
    if not torch.cuda.is_available():
        yield waits
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(before)
            waits += [each for each in caught if CALLED in str(each.message)]


def _compared(row: DeviceCheck, found: Learner, expected: Learner, close: float) -> DeviceCheck:
    start = build(*_small())
    moved = torch.linalg.vector_norm(_flat(expected) - _flat(start))
    apart = torch.linalg.vector_norm(_flat(found) - _flat(expected))
    return _judged(replace(row, difference=float(apart / moved)), close)


def _flat(learner: Learner) -> Tensor:
    """Return θ and φ as one vector, on the CPU in float64."""
    values = learner.net.state_dict().values()
    return torch.cat([v.cpu().double().flatten() for v in values if v.is_floating_point()])


def _judged(row: DeviceCheck, close: float) -> DeviceCheck:
    assert row.difference is not None
    if row.difference <= close:
        return row
    return replace(row, outcome="failed", note=f"further from the CPU than {close:g}")


class _StopError(Exception):
    pass


class _Stopping(Checkpoints):
    """Ends the run just after the second checkpoint it writes."""

    written = 0

    def save(self, state: State) -> None:
        super().save(state)
        self.written += 1
        if self.written == 2:
            raise _StopError


def in_a_line(error: Exception) -> str:
    """Describe an error in one line, with the place in the user's own code if it is there."""
    text = own_fault(error) or str(error).strip() or type(error).__name__
    return text.splitlines()[0]
