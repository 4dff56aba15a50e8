"""A request to stop (Ctrl-C, SIGTERM) that waits until it can be obeyed without loss."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

REQUESTS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def postponed() -> Iterator[Callable[[], bool]]:
    """Within, a request only shows in what is yielded; after, it is answered as usual. A second
    one is answered at once. Requests that are ignored or left to the kernel stay so."""
    asked: list[int] = []
    usual: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in REQUESTS}
        usual = {number: handler for number, handler in found.items() if callable(handler)}

    def remember(number: int, frame: FrameType | None) -> None:
        if asked:
            usual[number](number, frame)
        asked.append(number)

    try:
        for number in usual:
            signal.signal(number, remember)
        yield lambda: bool(asked)
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    if asked:
        signal.raise_signal(asked[0])
        raise SystemExit(128 + asked[0])  # whoever answered did not stop, but the work has
