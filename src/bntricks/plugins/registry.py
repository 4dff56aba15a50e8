"""Registries by name, of built-in and user entries alike.

An entry that is registered while a user's file or an installed package's entry point is imported
remembers that source, which is part of the identity of runs that use it.
"""

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
from typing import Generic, Self, TypeVar

from bntricks.errors import UserError, unknown

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, order=True)
class CodeSource:
    """A file or module from outside the package that registers things."""

    name: str
    sha256: str
    """The hash of the file's content."""

    @classmethod
    def of(cls, name: str, content: bytes) -> Self:
        return cls(name, hashlib.sha256(content).hexdigest())


_SOURCE: ContextVar[CodeSource | None] = ContextVar("source", default=None)


@contextmanager
def registering(source: CodeSource) -> Iterator[None]:
    """Attribute what is registered meanwhile to this source."""
    token = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(token)


def _by_this_package() -> bool:
    """Whether a module of this package is registering something, directly or not."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_globals["__name__"].startswith("bntricks.")


class Registry(Generic[Entry]):
    """Entries by name, in order of registration.

    `kind` is what errors call an entry. The modules of the package `home`, and the entry points of
    `group` in installed packages, are imported when an entry is first looked up.
    """

    def __init__(self, kind: str, *, home: str | None = None, group: str | None = None) -> None:
        self.kind, self.home, self.group = kind, home, group
        self._entries: dict[str, Entry] = {}
        self._built_in: set[str] = set()
        self._sources: dict[str, CodeSource] = {}
        self._broken: list[str] = []

    def add(self, name: str, entry: Entry) -> Entry:
        """Register an entry; only the source of an entry from outside may replace it."""
        source = None
        if _by_this_package():
            self._built_in.add(name)
        else:
            source = _SOURCE.get()
            if name in self.entries() and not self._may_replace(name, source):
                raise UserError(
                    f"there is a {self.kind} named {name!r} already: choose another name"
                )
        if source is None:
            self._sources.pop(name, None)
        else:
            self._sources[name] = source
        self._entries[name] = entry
        return entry

    def named(self, name: str) -> Callable[[Entry], Entry]:
        """Return `add` as a decorator."""
        return lambda entry: self.add(name, entry)

    def is_built_in(self, name: str) -> bool:
        """Whether an entry came with the package."""
        return name in self._built_in

    def source(self, name: str) -> CodeSource | None:
        """Return the source of an entry, if it is from outside the package."""
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
            except Exception as error:  # a broken package must not hide other entries
                reason = f"{type(error).__name__}: {error}"
                self._broken.append(f"{each.value} could not be imported: {reason}")
        return self._entries

    def find(self, name: str) -> Entry:
        entries = self.entries()
        if name not in entries:
            own = ["to use your own, register it in Python first"] * (":" in name)
            more = "".join(f"; {reason}" for reason in (*own, *self._broken))
            raise unknown(self.kind, name, list(entries), more)
        return entries[name]

    def _may_replace(self, name: str, source: CodeSource | None) -> bool:
        before = self._sources.get(name)
        if name in self._built_in:
            return False
        return source is None or (before is not None and before.name == source.name)


def _import_entry_point(entry: EntryPoint) -> None:
    """Import the module that an installed package names."""
    spec = importlib.util.find_spec(entry.module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {entry.module!r}")
    with registering(CodeSource.of(entry.module, Path(spec.origin).read_bytes())):
        importlib.import_module(entry.module)
