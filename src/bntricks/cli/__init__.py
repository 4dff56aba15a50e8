"""The command `bnt`: it parses, calls and prints. Torch is imported only when work begins."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    UnusedCliTokensError,
    ValidationError as Rejected,
)
from pydantic import ValidationError

from bntricks.cli import (  # noqa: F401 (they register themselves)
    check,
    classes,
    compare,
    console,
    demo,
    doctor,
    explore,
    history,
    learn,
    lists,
    predict,
    recalibrate,
    run,
    status,
    study,
    sweep,
)
from bntricks.cli.app import app, closest_flag, flag, needed, sort_commands
from bntricks.errors import (
    HeldError,
    InvalidOptions,
    PlannedError,
    RunError,
    UnfinishedError,
    UserError,
    extra,
    within_memory,
)
from bntricks.files import shown
from bntricks.plugins.imports import own_fault
from bntricks.system.ranks import launched
from bntricks.system.stopping import REQUESTS

sort_commands()

CONTINUED = {"demo", "learn", "resume", "run", "study", "sweep"}
"""Commands that keep what they have done when they are stopped."""
CODES: dict[type[PlannedError], int] = {RunError: 1, HeldError: 3, UnfinishedError: 4}
"""Exit codes of planned failures; any other is a mistake in the command, 2."""


def main() -> NoReturn:
    """Run the command line. A planned failure is one message and an exit code, not a traceback."""
    # Not KeyboardInterrupt: code that catches it on the way would decide the exit code.
    stopped: list[int] = []
    for request in REQUESTS:
        if signal.getsignal(request) is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(request, partial(_stop, stopped))
    try:
        _check_standard_streams()
        with within_memory(), extra():
            app(exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()  # while a full disk or a closed pipe can still be reported
        sys.exit(0)
    except Rejected as error:
        cause = error.__cause__
        message, code = str(error), 2
        if isinstance(cause, ValidationError):
            message = InvalidOptions.of(cause).worded(flag)
    except UnusedCliTokensError as error:
        unused = " ".join(map(repr, error.unused_tokens or ()))
        command = " ".join(["bnt", *(error.command_chain or ())])
        message = f"{command} does not take {unused}: an option has one value; see {command} --help"
        code = 2
    except MissingArgumentError as error:
        message, code = _suggestion() or needed(error), 2
    except CycloptsError as error:
        message, code = _suggestion() or str(error), 2
    except PlannedError as error:
        message, code = error.worded(flag), CODES.get(type(error), 2)
    except Exception as error:
        if stopped:  # a compiled library may have made an error of its own out of the request
            sys.exit(stopped[0])
        fault = own_fault(error)
        message, code = _unplanned(error) if fault is None else (fault, 1)
    if code != 2 or not launched()[0]:  # each rank of a run finds the same mistake
        console.complain(message)
    sys.exit(code)


def _unplanned(error: Exception) -> tuple[str, int]:
    """Return the message and exit code of a system error; raise any other error again."""
    if isinstance(error, BrokenPipeError):  # as if by the signal that other programs end with
        _discard_output()
        sys.exit(141)
    if not isinstance(error, OSError):
        raise error
    reason = error.strerror or str(error)
    if error.filename is not None:  # such as a name that is too long
        return f"cannot use {shown(error.filename)}: {reason}", 2
    _discard_output()
    return f"cannot write the output: {reason}", 1


def _check_standard_streams() -> None:
    """Refuse closed standard streams, as the next file to be opened would get their number."""
    for number in (0, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (until the end)
    if sys.stdout is None:
        raise UserError("standard output is closed: send it to a file, or to /dev/null")


def _discard_output() -> None:
    """Discard output that could not be written, so that it is not tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _suggestion() -> str | None:
    """Suggest a flag: one that is not known is parsed as a hyper-parameter, or refused as such."""
    command, *words = [*sys.argv[1:], ""]
    for word in words if command in app else ():
        given = word.partition("=")[0]
        if given.startswith("--") and (close := closest_flag(given, command)):
            return f"unknown flag {given}: {close}"
    return None


def _stop(stopped: list[int], number: int, frame: object) -> NoReturn:
    stopped.append(128 + number)
    how = "interrupted" if number == signal.SIGINT else "terminated"
    goes_on = CONTINUED.intersection(sys.argv[1:2])
    console.complain(how + (": repeat the command to go on from here" if goes_on else ""))
    sys.exit(128 + number)
