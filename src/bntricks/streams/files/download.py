"""Official archives, downloaded once into the cache by pooch. A file has its name only when it is
whole and its md5 is right; an interrupted download leaves nothing behind.
"""

import logging
import os
from pathlib import Path

from bntricks.errors import UserError
from bntricks.files import sync
from bntricks.streams.files.archive import LARGEST
from bntricks.streams.files.cache import built_once, cache_folder
from bntricks.streams.files.progress import OnProgress, Warn

RETRIES = 2
"""After a broken connection or a wrong hash."""

_BY_HAND = "fetch the file by hand and give the folder it lies in"


def fetch(name: str, url: str, md5: str, report: OnProgress, warn: Warn) -> Path:
    """Return the path of an archive in the cache, after downloading it if necessary. BNT_MIRROR
    takes the place of the official host."""
    import pooch

    def whole(path: Path) -> Path | None:
        return path if path.is_file() and pooch.file_hash(str(path), alg="md5") == md5 else None

    mirror = os.environ.get("BNT_MIRROR")
    url = f"{mirror.rstrip('/')}/{name}" if mirror else url
    return built_once(
        cache_folder() / "downloads" / name,
        whole,
        lambda folder: _download(name, url, md5, folder, report),
        report,
        warn,
    )


def _download(name: str, url: str, md5: str, folder: Path, report: OnProgress) -> Path:
    import pooch
    from requests import RequestException

    archives = pooch.Pooch(
        folder,
        base_url="",
        registry={name: f"md5:{md5}"},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    progress = _Progress(name, report)
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=30)
    logger = pooch.get_logger()  # writes to the terminal
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        archive = Path(archives.fetch(name, downloader=downloader))
        sync(archive)
        return archive
    except RequestException as error:
        raise UserError(
            f"cannot download {url}: {_reason(error)}; check the network, set BNT_MIRROR to a base "
            f"URL that has {name}, or {_BY_HAND}",
            remedy="data",
        ) from error
    except ValueError as error:
        raise UserError(f"{url}: {error} Try again, or {_BY_HAND}", remedy="data") from error
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """Describe the cause that requests and urllib3 have wrapped."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class _Progress:
    """A progress bar for pooch, which also stops endless downloads."""

    total = 0

    def __init__(self, name: str, report: OnProgress) -> None:
        self._name, self._report, self._done = name, report, 0

    def update(self, count: int) -> None:
        self._done += count
        if self._done > LARGEST:
            raise UserError(
                f"{self._name} goes on after {LARGEST:,} bytes, so it is not the known archive: "
                f"check BNT_MIRROR, or {_BY_HAND}",
                remedy="data",
            )
        # pooch counts whole chunks, of which the last may reach beyond the end.
        done = min(self._done, self.total) if self.total else self._done
        self._report(f"downloading {self._name}", done, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing to close."""
