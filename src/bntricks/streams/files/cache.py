"""The cache folder, whose entries are built once, however many processes want them.

An unfinished entry has another name until it is whole. A builder that was killed leaves no lock,
and the next builder removes its unfinished work.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from bntricks.errors import HeldError, UserError
from bntricks.files import PARTIAL, expanded, held, move, shown
from bntricks.streams.files.progress import OnProgress, Warn

T = TypeVar("T")


def cache_folder() -> Path:
    """Return BNT_CACHE, or the user's cache folder."""
    chosen = os.environ.get("BNT_CACHE")
    if chosen:
        return expanded(chosen)
    import pooch

    return Path(pooch.os_cache("bntricks"))


def built_once(
    target: Path,
    load: Callable[[Path], T | None],
    build: Callable[[Path], Path],
    report: OnProgress,
    warn: Warn,
) -> T:
    """Load the target, and build it first if `load` returns None: it is missing or damaged.

    `build` is called by one process at a time, with a path that is free. It returns that path or a
    file in it, which becomes the target. Its OSErrors are reported as failures to write.
    """
    loaded = load(target)
    if loaded is not None:
        return loaded
    partial = target.with_name(target.name + PARTIAL)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(target))
            except HeldError:
                report(f"waiting for another process to finish {target.name}", 0, None)
                stack.enter_context(held(target, wait=True))
            _remove(partial)
            for abandoned in target.parent.glob("*" + PARTIAL):  # whose builders were killed
                with suppress(HeldError), held(abandoned.with_suffix("")):
                    _remove(abandoned)
            stack.callback(_remove, partial)
            loaded = load(target)  # another process may have built it meanwhile
            if loaded is None:
                if target.exists():
                    warn(
                        f"the cache entry {shown(target)} is damaged or of an earlier version: "
                        "making it again"
                    )
                built = build(partial)
                _remove(target)
                move(built, target)
                loaded = load(target)
    except OSError as error:
        raise UserError(
            f"cannot write to the cache folder {target.parent}: {error.strerror or error}; "
            "set BNT_CACHE to a folder with room that you may write to"
        ) from error
    if loaded is None:
        raise UserError(
            f"the cache entry {target} was damaged as soon as it was written: "
            "check the disk, or set BNT_CACHE to a folder on another one"
        )
    return loaded


def _remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
