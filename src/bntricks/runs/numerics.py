"""What decides a run's last bits besides its configuration: the code that computes, and the machine
it ran on. Two runs of the same configuration with the same numerics have the same bits."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

import bntricks
from bntricks.runs.record import Numerics

DECIDE_BITS = (
    *("batch.py", "memory.py", "norm.py", "seeds.py", "system/devices.py", "runs/train.py"),
    *("networks", "streams", "recipes", "training", "methods"),
)
"""Files and folders of the package that compute; documentation, reports and the command line do
not."""
TELLING = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd")
"""Instruction sets that choose between kernels."""


def numerics(device: str) -> Numerics:
    """Describe what computes on this device, here and now."""
    cpu, flags = _processor()
    used = [torch.backends.cpu.get_cpu_capability(), *(flag for flag in TELLING if flag in flags)]
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else cpu
    return Numerics(source=source_digest(), processor=name, instructions=tuple(used))


@cache
def source_digest() -> str:
    """Hash the code that decides bits: comments, docstrings and layout do not count."""
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
    """A syntax tree as nested tuples without docstrings, empty parts or positions, so that every
    Python version makes the same of it."""
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
    """The CPU's name and flags; Linux alone tells them without another program."""
    import platform

    lines: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines():
            key, _, value = line.partition(":")
            lines[key.strip()] = value.strip()
    name = lines.get("model name") or platform.processor() or platform.machine()
    return name, set(lines.get("flags", lines.get("Features", "")).split())
