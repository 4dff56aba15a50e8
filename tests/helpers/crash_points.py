"""Kill a process before each change it makes to a folder: a forked child of this one, so that
nothing is imported again."""

import mmap
import os
import sys
from dataclasses import dataclass
from pathlib import Path

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
KILLED = 137


@dataclass(frozen=True)
class Ended:
    """How a child ended, how many changes to the folder it was about to make, and the last."""

    code: int
    changes: int
    last: str


def crash_points(work, folder):
    """Run `work` again and again, each time in a child that dies before one more change to the
    folder, until a child gets through; yields after each death. The caller looks at what is left
    and puts the folder back."""
    point = 0
    while (ended := forked(work, folder, point)).code == KILLED:
        yield point
        point += 1
    assert ended.code == 0, f"crash point {point}: the child ended with {ended.code}"


def forked(work, folder, point=None):
    """Do this work in a child, which dies before its change number `point` to the folder, counted
    from 0. What the work returns is the child's exit code."""
    told = mmap.mmap(-1, 4096)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        changes, _, last = told[:].split(b"\0", 1)[0].decode(errors="replace").partition(" ")
        return Ended(os.waitstatus_to_exitcode(status), int(changes or 0), last)
    try:
        sys.addaudithook(_killer(point, str(Path(folder).resolve()), told))
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _killer(point, within, told):
    changes = 0

    def before(event, arguments):
        nonlocal changes
        if _changes(event, arguments, within):
            text = f"{changes + 1} {event} {arguments}".encode()[:4095]
            told[: len(text) + 1] = text + b"\0"
            if changes == point:
                os._exit(KILLED)
            changes += 1

    return before


def _changes(event, arguments, folder):
    """Whether this event is about to change the folder; `open` does if it may write."""
    if event == "open":
        path, mode, flags = arguments
        writes = any(c in (mode or "") for c in "wxa+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
        return bool(writes) and _is_in(path, folder)
    return event in CHANGES and any(_is_in(each, folder) for each in arguments)


def _is_in(path, folder):
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    return os.path.realpath(os.fsdecode(path)).startswith(folder)
