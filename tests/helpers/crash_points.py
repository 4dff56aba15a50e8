"""Kill a process before each change it makes to a folder: a forked child of this one, so that
nothing is imported again."""

import os
import sys
from pathlib import Path

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
KILLED = 137


def crash_points(work, folder):
    """Run `work` again and again, each time in a child that dies before one more change to the
    folder, until a child gets through; yields after each death. The caller looks at what is left
    and puts the folder back."""
    point = 0
    while _dies(work, folder, point):
        yield point
        point += 1


def _dies(work, folder, point):
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, KILLED), f"crash point {point}: the child ended with {code}"
        return code == KILLED
    try:
        left = [point]
        within = str(Path(folder).resolve())

        def before(event, arguments):
            if _changes(event, arguments, within):
                if left[0] == 0:
                    os._exit(KILLED)
                left[0] -= 1

        sys.addaudithook(before)
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


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
