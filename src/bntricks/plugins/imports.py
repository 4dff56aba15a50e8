"""A user's own code, imported only because the user named it.

A file is read once. This process and its workers, on any machine, execute what was read, and its
SHA-256 is part of the identity of every run that uses it. Whatever the file imports must be
installed.
"""

import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from bntricks.errors import PlannedError, UserError
from bntricks.files import read_errors, regular_bytes, shown
from bntricks.plugins.registry import CodeSource, registering


@dataclass(frozen=True, slots=True)
class Code:
    """A file with its content, or an installed module."""

    source: CodeSource
    path: str
    """The path as given, for errors."""
    content: bytes | None

    def load(self) -> None:
        """Import the code and what it registers, unless this process has done so."""
        if _LOADED.get(self.source.name) == self:
            return
        try:
            # A program may read standard output.
            with registering(self.source), redirect_stdout(sys.stderr):
                self._execute()
        except (Exception, SystemExit) as error:
            raise UserError(_located(error, self.path)) from None
        _LOADED[self.source.name] = self

    def _execute(self) -> None:
        if self.content is None:
            if _find_module(self.source.name).source != self.source:
                raise UserError("it is not the same here as where the command was given")
            import_module(self.source.name)
            return
        # Under another name than the file's own, which may be that of a library.
        module = ModuleType(f"bntricks_import_{Path(self.path).stem}")
        module.__file__ = self.path
        sys.modules[module.__name__] = module  # where annotations are looked up
        exec(compile(self.content, self.path, "exec"), vars(module))


_LOADED: dict[str, Code] = {}


def import_code(name: str | Path) -> Code:
    """Import a file (`my.py`) or a module (`package.module`) that registers methods, streams,
    networks or norms. They can then be used by name, by the workers of a sweep too."""
    text = str(name)
    is_file = isinstance(name, Path) or text.endswith(".py") or "/" in text or "\\" in text
    code = _read_file(Path(text).expanduser()) if is_file else _find_module(text)
    before = _LOADED.get(code.source.name)
    if before is not None and Path(before.path).absolute() != Path(code.path).absolute():
        raise UserError(
            f"{shown(before.path)} and {shown(code.path)} have the same name: rename one of them"
        )
    code.load()
    return code


def loaded() -> tuple[Code, ...]:
    """List what this process has imported, in order, for other processes to import."""
    return tuple(_LOADED.values())


def own_fault(error: BaseException) -> str | None:
    """Describe an error that arose in a user's own code; None if it arose elsewhere."""
    passed = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    for code in loaded():
        if code.path in passed:
            return _located(error, code.path)
    return None


def _read_file(path: Path) -> Code:
    if not path.exists():
        raise UserError("there is no such file", option="import", value=shown(path))
    with read_errors(path):
        content = regular_bytes(path)
    return Code(CodeSource.of(path.name, content), str(path), content)


def _find_module(name: str) -> Code:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        spec = find_spec(name)
    except (Exception, SystemExit) as error:  # of a package on the way
        reason = f"importing it raised {type(error).__name__}: {error}"
        raise UserError(reason, option="import", value=shown(name)) from None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        reason = "there is no such module; a file ends with .py"
        raise UserError(reason, option="import", value=shown(name))
    with read_errors(spec.origin):
        source = CodeSource.of(name, regular_bytes(Path(spec.origin)))
    return Code(source, spec.origin, None)


def _located(error: BaseException, path: str) -> str:
    """Describe an error in one line, with the user's file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == path]
    reason = str(error) if isinstance(error, PlannedError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == path:
        lines, reason = [error.lineno], f"{type(error).__name__}: {error.msg}"
    where = f"{shown(path)}:{lines[-1]}" if lines else shown(path)
    return f"{where}: {shown(next(iter(reason.splitlines()), ''))}"
