"""The command `bnt`. Thin: it parses, calls, prints. No torch is imported until work begins."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from cyclopts import CycloptsError, ValidationError as Rejected
from pydantic import ValidationError

from bntricks.cli import (  # noqa: F401 (they register themselves)
    bench,
    console,
    demo,
    doctor,
    learn,
    lists,
    predict,
    run,
    study,
)
from bntricks.cli.app import app, closest_flag, flag
from bntricks.errors import HeldError, InvalidOptions, PlannedError, RunError


def main() -> NoReturn:
    """Run the command line. A planned failure is one message and an exit code, not a traceback."""
    # Not KeyboardInterrupt: code that catches it on the way would decide the exit code.
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        app(exit_on_error=False, print_error=False)
        code = 0
    except Rejected as error:
        cause = error.__cause__
        if isinstance(cause, ValidationError):
            code = _fail(InvalidOptions.of(cause).worded(flag), 2)
        else:
            code = _fail(str(error), 2)
    except CycloptsError as error:
        code = _fail(_suggestion() or str(error), 2)
    except PlannedError as error:
        code = _fail(error.worded(flag), {RunError: 1, HeldError: 3}.get(type(error), 2))
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    sys.exit(code)


def _suggestion() -> str | None:
    """The flag that was probably meant: a misspelt switch is parsed as a hyper-parameter, and then
    lacks a value."""
    command, *words = [*sys.argv[1:], ""]
    for word in words if command in ("run", "learn") else ():
        if word.startswith("--") and (close := closest_flag(word.partition("=")[0], command)):
            return f"unknown flag {word}: did you mean {close}?"
    return None


def _fail(message: str, code: int) -> int:
    console.complain(message)
    return code


def _stop(number: int, frame: object) -> NoReturn:
    console.complain("interrupted" if number == signal.SIGINT else "terminated")
    sys.exit(128 + number)
