"""Things by name: methods, networks, norms, optimisers. A user's own are equal to ours."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from bntricks.errors import UserError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name, in the order in which they came.

    `kind` is what an entry is called. The modules of the package `home` register themselves: they
    are imported when an entry is first looked up.
    """

    def __init__(self, kind: str, *, home: str | None = None) -> None:
        self.kind, self.home = kind, home
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, entry: Entry) -> Entry:
        self._entries[name] = entry
        return entry

    def named(self, name: str) -> Callable[[Entry], Entry]:
        """`add` as a decorator."""
        return lambda entry: self.add(name, entry)

    def entries(self) -> dict[str, Entry]:
        home, self.home = self.home, None
        if home is not None:
            for module in pkgutil.iter_modules(importlib.import_module(home).__path__):
                importlib.import_module(f"{home}.{module.name}")
        return self._entries

    def find(self, name: str) -> Entry:
        entries = self.entries()
        if name not in entries:
            close = difflib.get_close_matches(name, entries, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            own = "; one of your own is registered first, in Python" if ":" in name else ""
            raise UserError(
                f"unknown {self.kind} {name!r}: {hint}there are {', '.join(entries)}{own}"
            )
        return entries[name]
