"""Things by name: methods, networks, norms, optimisers. A user's own are equal to ours.

What is registered while a user's file is imported, or a module that an installed package names as
an entry point, remembers that source: it is part of the identity of runs that use it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from bntricks.errors import UserError

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A file or module from outside the package that registers things."""

    name: str
    sha256: str
    """Of the file's content."""


_SOURCE: ContextVar[Source | None] = ContextVar("source", default=None)


@contextmanager
def registering(source: Source) -> Iterator[None]:
    """Whatever is registered meanwhile comes from this source."""
    token = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(token)


def _registering() -> Source | None:
    """The source that is being imported, unless that has made a module of this package be imported
    in turn, which now registers what is its own."""
    source = _SOURCE.get()
    if source is None:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    ours = frame is not None and frame.f_globals["__name__"].startswith("bntricks.")
    return None if ours else source


class Registry(Generic[Entry]):
    """Entries by name, in the order in which they came.

    `kind` is what an entry is called. The modules of the package `home` register themselves, and
    so do those that installed packages list as entry points of `group`: they are imported when an
    entry is first looked up.
    """

    def __init__(self, kind: str, *, home: str | None = None, group: str | None = None) -> None:
        self.kind, self.home, self.group = kind, home, group
        self._entries: dict[str, Entry] = {}
        self._sources: dict[str, Source] = {}
        self._broken: list[str] = []

    def add(self, name: str, entry: Entry) -> Entry:
        """Register an entry. A source from outside may replace its own entries, and no others."""
        source, before = _registering(), self._sources.get(name)
        if source is not None:
            if name in self.entries() and (before is None or before.name != source.name):
                raise UserError(
                    f"there is a {self.kind} named {name!r} already: choose another name"
                )
            self._sources[name] = source
        else:
            self._sources.pop(name, None)
        self._entries[name] = entry
        return entry

    def named(self, name: str) -> Callable[[Entry], Entry]:
        """`add` as a decorator."""
        return lambda entry: self.add(name, entry)

    def source(self, name: str) -> Source | None:
        """Where the entry of this name comes from, if it is from outside the package."""
        self.entries()
        return self._sources.get(name)

    def entries(self) -> dict[str, Entry]:
        home, self.home = self.home, None
        group, self.group = self.group, None
        if home is not None:
            for module in pkgutil.iter_modules(importlib.import_module(home).__path__):
                importlib.import_module(f"{home}.{module.name}")
        for each in entry_points(group=group) if group is not None else ():
            try:
                _import_entry_point(each)
            except Exception as error:  # a broken package is no reason to refuse other entries
                self._broken.append(f"{each.value} is not there: {type(error).__name__}: {error}")
        return self._entries

    def find(self, name: str) -> Entry:
        entries = self.entries()
        if name not in entries:
            close = difflib.get_close_matches(name, entries, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            own = "; one of your own is registered first, in Python" if ":" in name else ""
            broken = "".join(f"; {reason}" for reason in self._broken)
            raise UserError(
                f"unknown {self.kind} {name!r}: {hint}there are {', '.join(entries)}{own}{broken}"
            )
        return entries[name]


def _import_entry_point(entry: EntryPoint) -> None:
    """Import the module that an installed package names."""
    spec = importlib.util.find_spec(entry.module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {entry.module!r}")
    digest = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    with registering(Source(entry.module, digest)):
        importlib.import_module(entry.module)
