"""The cache folder, and what is built in it once, whoever else wants it at the same time.

Whatever is unfinished has a name of its own beside the target until it is renamed. A builder that
was killed leaves no lock, and the next builder removes its unfinished work.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bntricks.errors import HeldError, UserError
from bntricks.files import PARTIAL, expanded, held, sync
from bntricks.streams.files.progress import Report


def cache_folder() -> Path:
    """BNT_CACHE, or the user's cache folder."""
    chosen = os.environ.get("BNT_CACHE")
    if chosen:
        return expanded(chosen)
    import pooch

    return Path(pooch.os_cache("bntricks"))


@contextmanager
def building(target: Path, report: Report) -> Iterator[Path]:
    """Hold the target; yield a path, not yet there, to build at and to `publish` from.

    Whatever is still at that path in the end is removed. Any OSError inside is a failure to write.
    """
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
            _remove_abandoned(target.parent)
            stack.callback(_remove, partial)
            yield partial
    except OSError as error:
        raise UserError(
            f"cannot write to the cache folder {target.parent}: {error.strerror or error}; "
            "set BNT_CACHE to a folder with room that you may write to"
        ) from error


def publish(built: Path, target: Path) -> None:
    """Give what was built its final name, which must survive a power loss."""
    _remove(target)
    built.rename(target)
    sync(target.parent)


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished work of builders that were killed, and of no other."""
    for partial in folder.glob("*" + PARTIAL):
        with suppress(HeldError), held(partial.with_suffix("")):
            _remove(partial)


def _remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
