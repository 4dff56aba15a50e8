"""Files that are whole or absent, locks that die with their holder, and errors that name a file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from math import inf, isfinite
from pathlib import Path
from stat import S_IFDIR, S_IFIFO, S_IFMT, S_IFSOCK
from typing import TYPE_CHECKING, Any

from bntricks.errors import HeldError, UserError
from bntricks.system.stopping import postponed

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from torch import Tensor

PARTIAL = ".partial"
LARGEST = 1 << 26
"""Bytes of a text that is parsed."""
DEEPEST, MOST_DIGITS = 64, 40
"""Of values in a text: lists within lists, and digits of a whole number."""
TOO_LONG = f"a number has more than {MOST_DIGITS} digits"


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write to a temporary file, flush it to disk and rename it, so that a file is never half
    written and never missing. The previous content moves to `keep`, if given. A link stays, and
    its target is written. Where others may write at the same time, use `commit`."""
    _replace({path: content}, keep)


def commit(
    contents: Mapping[Path, bytes],
    *,
    keep: Path | None = None,
    outdated: Iterable[Path] = (),
    lock: Path | None = None,
) -> None:
    """Write files, all or none, and remove `outdated` ones. Writers take turns, by a lock for each
    file or a common one, and clean up after killed writers.

    After a kill between two renames, the same commit again completes the change.
    """
    with held(*contents, lock=lock, wait=True):
        remove_leftovers(*contents, *([] if keep is None else [keep]))
        _replace(contents, keep, outdated)


def _replace(
    contents: Mapping[Path, bytes], keep: Path | None, outdated: Iterable[Path] = ()
) -> None:
    """Flush all files to disk before the first rename, and postpone requests to stop until the
    last. Outdated files go first, while the disk still says which ones they are."""
    partials = {path: _partial(path) for path in map(regular_file, contents)}
    try:
        for partial, content in zip(partials.values(), contents.values(), strict=True):
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if keep is not None:
            for path in filter(Path.exists, partials):
                _keep(path, keep)
        outdated = list(outdated)
        with postponed() if len(partials) > 1 else nullcontext():
            for path in outdated:
                path.unlink()
            for path, partial in partials.items():
                partial.replace(path)
            for folder in {path.parent for path in partials}:
                sync(folder)
    except BaseException:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
        raise


def _keep(path: Path, keep: Path) -> None:
    """Give a file a second name, or copy it where the file system has no links. The next change of
    the file removes what a kill leaves behind."""
    beside = _partial(path if keep.parent.samefile(path.parent) else keep)
    try:
        try:
            beside.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, beside)
            sync(beside)
        beside.replace(keep)
    finally:  # a rename leaves both names if they are of one file already
        beside.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")


def leftovers(path: Path) -> list[Path]:
    """List unfinished files that killed writers of this file, or of any in this folder, have left.
    Nobody may be writing there."""
    target = Path(os.path.realpath(path))
    folder, name = (target, ".+") if target.is_dir() else (target.parent, re.escape(target.name))
    if not folder.is_dir():
        return []
    own = re.compile(rf"\.{name}\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
    return sorted(file for file in folder.iterdir() if own.fullmatch(file.name))


def remove_leftovers(*paths: Path) -> None:
    for path in paths:
        for file in leftovers(path):
            file.unlink(missing_ok=True)


def pack_json(value: dict[str, Any], *, indent: int | None = None) -> bytes:
    """Write plain values as JSON with their checksum."""
    signed = value | {"checksum": checksum(value)}
    text = json.dumps(signed, indent=indent, allow_nan=False, ensure_ascii=False)
    return text.encode(errors="surrogatepass")  # of file names that are not UTF-8


def unpack_json(content: bytes, *, unsigned: bool = False) -> dict[str, Any]:
    """Read what `pack_json` wrote; a damaged file, or one without a checksum, is a ValueError."""
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
    """Parse JSON; anything else, however deep or large, is a ValueError."""
    try:
        return _bounded(content, json.loads)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("not whole JSON") from None


def parse_tensors(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Parse safetensors into tensors by name and metadata; anything else is a ValueError."""
    import safetensors.torch as safe  # reports and records need no torch
    from safetensors import SafetensorError

    try:
        tensors = safe.load(content)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError("not a whole safetensors file") from None
    end = 8 + int.from_bytes(content[:8], "little")
    return tensors, parse_json(content[8:end]).get("__metadata__") or {}


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, or raise a ValueError that says what is wrong."""
    import tomllib

    values: dict[str, Any] = _bounded(text, tomllib.loads)
    return values


def _bounded(content: Any, parse: Callable[[Any], Any]) -> Any:
    if len(content) > LARGEST:
        raise ValueError(f"larger than {LARGEST:,} bytes")
    try:
        value = parse(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):  # Python's advice is for programmers
            raise ValueError(TOO_LONG) from None
        raise
    _check_bounds(value, DEEPEST)
    return value


def _check_bounds(value: Any, levels: int) -> None:
    """Refuse values that could not be printed, compared or written again."""
    if isinstance(value, dict | list):
        if not levels:
            raise ValueError("nested too deeply")
        for part in value.values() if isinstance(value, dict) else value:
            _check_bounds(part, levels - 1)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a valid number")
    elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise ValueError(TOO_LONG)


def move(path: Path, target: Path) -> None:
    """Rename a file or folder, replacing what has that name."""
    path.replace(target)
    sync(target.parent)


def checksum(values: dict[str, Any]) -> str:
    """Hash plain values, independent of their layout in a file."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def regular_file(path: Path) -> Path:
    """Follow links to a file, which need not exist. Devices, pipes and sockets are refused,
    because a rename would replace them."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        kinds = {S_IFDIR: "folder", S_IFIFO: "pipe", S_IFSOCK: "socket"}
        kind = kinds.get(S_IFMT(target.stat().st_mode), "device")
        raise UserError(f"{shown(path)} is a {kind}: give the name of a file to write")
    return target


def sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk, so that a rename survives a power loss."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":  # Windows cannot open a folder, and needs no such call
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(*paths: Path, lock: Path | None = None, wait: bool = False) -> Iterator[None]:
    """Lock these paths: raise HeldError if another process holds one of them, or wait for it. A
    thread may lock what it holds already.

    The path itself is not touched: the lock is on a file of its own, by default a hidden one beside
    the path, which is removed in the end. It is the kernel's lock, so it dies with its holder; the
    empty file that a killed process leaves behind locks nothing.
    """
    from filelock import FileLock, Timeout  # most commands hold nothing, and start faster without

    # A link and its target share a lock; everybody locks in the same order.
    locks = {lock or _lock_of(path.resolve()): path for path in paths}
    with ExitStack() as stack:
        for place, path in sorted(locks.items()):
            place.parent.stat()  # filelock would create a missing folder
            file_lock = FileLock(place, is_singleton=True)
            try:
                file_lock.acquire(blocking=wait)
            except Timeout:
                raise HeldError(f"{shown(path)} is being worked on by another process") from None
            stack.callback(_release, file_lock)
        yield


def is_held(lock: Path) -> bool:
    """Whether another process holds this lock. Nobody who holds it is disturbed."""
    if not lock.exists():
        return False
    from filelock import FileLock, Timeout

    file_lock = FileLock(lock)
    try:
        with file_lock.acquire(blocking=False):
            return False
    except Timeout:
        return True


def _lock_of(path: Path) -> Path:
    return path.parent / f".{path.name}.lock"


def _release(file_lock: BaseFileLock) -> None:
    if file_lock.lock_counter == 1:
        # Safe while it is held: filelock notices that a file it waited for is gone, and makes a
        # new one. Windows refuses, and removes it on release.
        with suppress(OSError):
            Path(file_lock.lock_file).unlink()
    file_lock.release()


def shown(name: str | Path) -> str:
    """Escape what does not print, so that a name fits one line of a message."""
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(word: str | Path) -> str:
    """Quote a word for a shell; what does not print is escaped as in bash."""
    text = str(word)
    if text.isprintable():
        return shlex.quote(text)
    escaped = (
        c if c.isprintable() and c not in "\\'" else "".join(f"\\x{b:02x}" for b in os.fsencode(c))
        for c in text
    )
    return f"$'{''.join(escaped)}'"


def command_line(words: Iterable[str | Path]) -> str:
    """Quote the words of a command, to be copied into a shell."""
    return " ".join(map(quoted, words))


@contextmanager
def read_errors(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a one-line error that names the file or folder."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror or error}") from error


@contextmanager
def write_errors(*paths: Path) -> Iterator[None]:
    """Turn an OSError into a one-line error that names the files."""
    try:
        yield
    except OSError as error:
        names = ", ".join(map(shown, paths))
        raise UserError(f"cannot write {names}: {error.strerror or error}") from error


def regular_bytes(path: Path, *, at_most: float = inf) -> bytes:
    """Read a file, or raise an OSError. Only regular files are opened: a pipe would wait for ever,
    and a device never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > at_most:
        raise OSError(errno.EFBIG, f"it is larger than {at_most:,} bytes")
    return path.read_bytes()


def text_bytes(path: Path) -> bytes:
    """Read a file that is to be parsed; too large a one is an OSError."""
    return regular_bytes(path, at_most=LARGEST)


def expanded(path: Path | str) -> Path:
    """Replace ~ by the home folder, if there is one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
