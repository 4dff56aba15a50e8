"""This process: its name, and requests to stop it (Ctrl-C, SIGTERM, a closed terminal), postponed
until nothing would be lost."""

import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

REQUESTS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Windows has no SIGHUP, the signal of a closed terminal."""


@contextmanager
def postponed() -> Iterator[Callable[[], bool]]:
    """Postpone requests to stop; yield a function that says whether one has arrived. It is obeyed
    when the context ends, a second one at once. Signals that are ignored or left to the kernel stay
    so."""
    received: list[int] = []
    usual: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in REQUESTS}
        usual = {number: handler for number, handler in handlers.items() if callable(handler)}

    def remember(number: int, frame: FrameType | None) -> None:
        if received:
            usual[number](number, frame)
        received.append(number)

    try:
        for number in usual:
            signal.signal(number, remember)
        yield lambda: bool(received)
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])
        raise SystemExit(128 + received[0])  # the handler returned, but the work is incomplete


def process() -> str:
    """Name this process and its machine, with its GPU if it has one of several for itself."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    where = f"{platform.node()}, process {os.getpid()}"
    return where if not gpu else f"{where}, GPU {gpu}"
