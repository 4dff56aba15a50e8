"""Files that are whole or absent, locks that die with their holder, and errors that name a file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IFDIR, S_IFIFO, S_IFMT, S_IFSOCK
from typing import Any, NoReturn

from bntricks.errors import HeldError, UserError

PARTIAL = ".partial"
UNFINISHED = rf"[0-9a-f]{{8}}{re.escape(PARTIAL)}"
"""How the name of an unfinished file ends, after that of the file it was to be."""


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write to a temporary file beside it, flush to disk, rename: never half a file, and never
    none where there was one. What was there before is kept at `keep` too, if that is given. A link
    stays, and its target is written."""
    path = regular_file(path)
    partial = _partial(path)
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            _keep(path, keep)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _keep(path: Path, keep: Path) -> None:
    """Give a file a second name, or a copy where the file system has no links."""
    beside = _partial(keep)
    try:
        try:
            beside.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, beside)
            sync(beside)
        beside.replace(keep)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


def leftovers(path: Path) -> list[Path]:
    """Unfinished files that killed writers of this path have left; nobody may be writing it."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        return []
    begin = f".{target.name}."
    return sorted(
        file
        for file in target.parent.iterdir()
        if file.name.startswith(begin) and re.fullmatch(UNFINISHED, file.name[len(begin) :])
    )


def pack_json(value: dict[str, Any], *, indent: int | None = None) -> bytes:
    """Plain values as JSON with their checksum."""
    signed = value | {"checksum": checksum(value)}
    return json.dumps(signed, indent=indent, allow_nan=False, ensure_ascii=False).encode()


def unpack_json(content: bytes, *, unsigned: bool = False) -> dict[str, Any]:
    """The plain values in a JSON file, or a ValueError: not whole, too deep, not what `pack_json`
    wrote, or, unless `unsigned` is allowed, without a checksum."""
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if "checksum" in value:
        if value.pop("checksum") != checksum(value):
            raise ValueError("its checksum does not match")
    elif not unsigned:
        raise ValueError("it has no checksum")
    return value


def parse_json(content: str | bytes) -> Any:
    """Plain values from JSON, or a ValueError for anything else, however deep or large it is."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("not whole JSON") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Plain values from TOML, or a ValueError that says what is wrong."""
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def move(path: Path, target: Path) -> None:
    """Give a file or folder another name, in place of what has it."""
    path.replace(target)
    sync(target.parent)


def checksum(values: dict[str, Any]) -> str:
    """Of plain values, however they are laid out in a file."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a valid number")


def regular_file(path: Path) -> Path:
    """The file that this path leads to, which need not be there yet. A rename would replace a
    device, a pipe or a socket, so these are refused."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        kinds = {S_IFDIR: "folder", S_IFIFO: "pipe", S_IFSOCK: "socket"}
        kind = kinds.get(S_IFMT(target.stat().st_mode), "device")
        raise UserError(f"{shown(path)} is a {kind}: give the name of a file to write")
    return target


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of writers that were killed; nobody may be writing here."""
    for partial in folder.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a folder's entries, are on disk: without the latter, a
    power loss may undo a rename."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":  # Windows cannot open a folder, and needs no such call
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path, *, lock: Path | None = None, wait: bool = False) -> Iterator[None]:
    """Keep other processes that hold this path out, or wait until they are done.

    The path itself is not touched: what is locked, and removed in the end, is a file of its own
    (default: beside the path, with `.lock` added to its name). The lock is the kernel's, so it
    dies with its holder; the empty file that a killed process leaves behind locks nothing.
    """
    from filelock import FileLock, Timeout  # most commands hold nothing, and start faster without

    if lock is None:
        target = path.resolve()  # a link and the file it leads to share their lock
        lock = target.with_name(f"{target.name}.lock")
    file_lock = FileLock(lock)
    try:
        file_lock.acquire(blocking=wait)
    except Timeout:
        raise HeldError(f"{shown(path)} is being worked on by another process") from None
    try:
        yield
    finally:
        # Safe while it is held: filelock notices that a file it waited for is gone, and makes a
        # new one. Windows refuses, and removes it on release.
        with suppress(OSError):
            lock.unlink()
        file_lock.release()


def shown(name: str | Path) -> str:
    """A name as text for one line of a message: what does not print is escaped."""
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Name the file or folder that the system does not let us read, in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror or error}") from error


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name the file that the system does not let us write, in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror or error}") from error


def regular_bytes(path: Path) -> bytes:
    """The content of a file, or an OSError. What is no regular file is not opened: a pipe would
    wait for ever, and a device never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path.read_bytes()


def expanded(path: Path | str) -> Path:
    """The path with ~ as the home it stands for, or as it is if there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
