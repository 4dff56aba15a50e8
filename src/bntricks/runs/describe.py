"""Describe a finished run as a record. Its numerics are what decided its last bits besides its
configuration: the code that computes, and the machine. Two runs with the same configuration and the
same numerics have the same bits."""

import ast
import hashlib
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import torch

import bntricks
from bntricks.recipes.language import Method
from bntricks.recipes.phi_share import new_share
from bntricks.runs.config import Config
from bntricks.runs.evaluation import Outcome
from bntricks.runs.record import Data, Numerics, Reading, Record, Seconds
from bntricks.runs.record.measurements import BeforeLearning, EpochAccuracy
from bntricks.streams import STREAMS, Stream
from bntricks.training import checkpoint
from bntricks.training.learner import Learner

DECIDE_BITS = (
    *("batch.py", "memory.py", "norm.py", "seeds.py", "system/devices.py", "runs/train.py"),
    *("networks", "streams", "recipes", "training", "methods"),
)
"""Files and folders of the package that compute, unlike reports and the command line."""
TELLING = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd")
"""Instruction sets that choose between kernels."""


def describe(config: Config, stream: Stream, outcome: Outcome) -> Record:
    """Make the record of a finished run."""
    cost = outcome.learner.cost
    passes = cost.forwards + cost.tracking_forwards
    kinds = ("train", "test")
    before = None
    if outcome.untrained:
        before = BeforeLearning(
            untrained=tuple(outcome.untrained), just_before=tuple(outcome.just_before)
        )
    return Record(
        config=config,
        accuracy=tuple(map(tuple, outcome.accuracy)),
        task_il_accuracy=tuple(map(tuple, outcome.within)),
        readings=_readings(config, outcome),
        before_learning=before,
        epoch_accuracy=tuple(map(EpochAccuracy.model_validate, outcome.epochs)) or None,
        confusion=outcome.confusion or None,
        data=Data(
            fingerprint=stream.fingerprint,
            classes=tuple(task.classes for task in stream),
            class_names=stream.class_names,
            images=dict(zip(kinds, stream.counts, strict=True)),
            official_images=stream.official and dict(zip(kinds, stream.official, strict=True)),
            cut_down=stream.cut_down,
            given=None if stream.name in STREAMS else True,
        ),
        seconds=Seconds(
            train=tuple(outcome.train_seconds), evaluate=tuple(outcome.evaluate_seconds)
        ),
        steps=cost.steps,
        forwards=passes,
        forwards_per_step=passes / cost.steps,
        images_per_step=cost.images / cost.steps,
        images_per_second=cost.images / sum(outcome.train_seconds),
        tracking_forwards=cost.tracking_forwards,
        tracking_skipped=cost.tracking_skipped,
        peak_memory_mb=peak_memory_mb(),
        new_share_of_phi=_new_share(config, outcome.learner.method),
        distinct=None if (memory := outcome.learner.memory) is None else memory.distinct,
        digest=digest(outcome.learner),
        versions={
            **checkpoint.versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        numerics=numerics(config.device),
        finished=datetime.now(UTC).replace(microsecond=0),
    )


def _new_share(config: Config, method: Method) -> float | None:
    return None if config.changed() & Config.options(decides_phi=True) else new_share(method, t=5)


def _readings(config: Config, outcome: Outcome) -> dict[str, Reading] | None:
    if outcome.readings is None or outcome.reader is None:
        return None
    return {
        name: Reading(
            accuracy=tuple(map(tuple, own["accuracy"])),
            task_il_accuracy=tuple(map(tuple, own["within"])),
            new_share_of_phi=_new_share(config, outcome.reader.methods[name]),
        )
        for name, own in outcome.readings.items()
    }


def digest(learner: Learner) -> dict[str, str]:
    """Hash the final network and the memory."""
    memory = {} if learner.memory is None else learner.memory.state_dict()
    return {
        "network": checkpoint.digest(learner.net.state_dict()),
        "memory": checkpoint.digest(memory),
    }


def reset_peak_memory() -> None:
    """Start measuring peak memory anew, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # see proc(5)


def peak_memory_mb() -> float:
    """Return this process's peak memory since the last reset, or 0 if the system does not say."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform == "linux" else 1024**2)


def numerics(device: str) -> Numerics:
    """Describe what computes on this device, here and now."""
    cpu, flags = _processor()
    used = [torch.backends.cpu.get_cpu_capability(), *(flag for flag in TELLING if flag in flags)]
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else cpu
    return Numerics(source=source_digest(), processor=name, instructions=tuple(used))


@cache
def source_digest() -> str:
    """Hash the code that decides bits, without comments, docstrings and layout."""
    root = Path(bntricks.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(file for name in DECIDE_BITS for file in _files(root / name)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(repr(_outline(tree)).encode())
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    return path.rglob("*.py") if path.is_dir() else iter([path])


def _outline(node: object) -> object:
    """Turn a syntax tree into nested tuples, without docstrings, empty parts and positions, so that
    they are the same in every Python version."""
    if isinstance(node, list):
        return tuple(_outline(each) for each in node if not _is_docstring(each))
    if not isinstance(node, ast.AST):
        return node
    parts = ((name, _outline(value)) for name, value in ast.iter_fields(node))
    return (type(node).__name__, *(part for part in parts if part[1] not in (None, ())))


def _is_docstring(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _processor() -> tuple[str, set[str]]:
    """Return the CPU's name and flags; only Linux provides them without another program."""
    lines: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines():
            key, _, value = line.partition(":")
            lines[key.strip()] = value.strip()
    name = lines.get("model name") or platform.processor() or platform.machine()
    return name, set(lines.get("flags", lines.get("Features", "")).split())
