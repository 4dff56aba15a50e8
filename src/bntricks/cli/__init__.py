"""The command `bnt`. Thin: it parses, calls, prints. No torch is imported until work begins."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from cyclopts import CycloptsError
from cyclopts import ValidationError as Rejected
from pydantic import ValidationError

from bntricks.cli import (  # noqa: F401 (they register themselves)
    bench,
    demo,
    doctor,
    learn,
    lists,
    predict,
    run,
    study,
)
from bntricks.cli import console as terminal
from bntricks.cli.app import app
from bntricks.errors import HeldError, RunError, UserError
from bntricks.runs.config import explain


def main() -> NoReturn:
    """Run the command line; every planned failure is a line and an exit code, no traceback."""
    # Not KeyboardInterrupt: whoever might catch that on the way would decide the exit code.
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        app(exit_on_error=False, print_error=False)
        code = 0
    except Rejected as error:
        cause = error.__cause__
        code = _fail(explain(cause) if isinstance(cause, ValidationError) else str(error), 2)
    except (CycloptsError, UserError) as error:
        code = _fail(str(error), 2)
    except RunError as error:
        code = _fail(str(error), 1)
    except HeldError as error:
        code = _fail(str(error), 3)
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    sys.exit(code)


def _fail(message: str, code: int) -> int:
    terminal.complain(message)
    return code


def _stop(number: int, frame: object) -> NoReturn:
    terminal.complain("interrupted" if number == signal.SIGINT else "terminated")
    sys.exit(128 + number)
