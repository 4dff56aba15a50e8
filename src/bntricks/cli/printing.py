"""Output that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from bntricks.cli.app import flag
from bntricks.errors import RunError

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import Failure


@contextmanager
def stdout_reserved() -> Iterator[None]:
    """Send what a user's own code prints to stderr, as a program may read the command's output."""
    with redirect_stdout(sys.stderr):
        yield


def print_json(value: Any) -> None:
    print(json.dumps(value, allow_nan=False))


def spread(value: dict[str, float | None] | None) -> str:
    """Write mean ± standard deviation, as far as there are any."""
    if value is None:
        return "–"
    return f"{value['mean']:.1f}" + ("" if value["sd"] is None else f" ± {value['sd']:.1f}")


def raise_failures(results: Sequence[Record | Failure], names: Sequence[str] = ()) -> None:
    """Report the failed runs, which did not stop the others, and set the exit code to 1. `names`
    are those of all runs, if their methods do not distinguish them."""
    from bntricks.sweeps.local import Failure

    names = names or [result.config.method for result in results]
    failed = [(n, r) for n, r in zip(names, results, strict=True) if isinstance(r, Failure)]
    if failed:
        raise RunError(
            "\n".join(
                f"{name}, seed {each.config.seed}: {each.error.worded(flag)}"
                for name, each in failed
            )
        )
