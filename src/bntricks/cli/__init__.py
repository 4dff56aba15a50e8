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
        sys.exit(0)
    except Rejected as error:
        cause = error.__cause__
        message, code = str(error), 2
        if isinstance(cause, ValidationError):
            message = InvalidOptions.of(cause).worded(flag)
    except CycloptsError as error:
        message, code = _suggestion() or str(error), 2
    except PlannedError as error:
        message, code = error.worded(flag), {RunError: 1, HeldError: 3}.get(type(error), 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    console.complain(message)
    sys.exit(code)


def _suggestion() -> str | None:
    """The flag that was probably meant: a misspelt switch is parsed as a hyper-parameter, and then
    lacks a value."""
    command, *words = [*sys.argv[1:], ""]
    for word in words if command in ("run", "learn") else ():
        if word.startswith("--") and (close := closest_flag(word.partition("=")[0], command)):
            return f"unknown flag {word}: did you mean {close}?"
    return None


def _stop(number: int, frame: object) -> NoReturn:
    console.complain("interrupted" if number == signal.SIGINT else "terminated")
    sys.exit(128 + number)
