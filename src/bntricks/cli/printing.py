"""What several commands print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bntricks.errors import RunError

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.sweeps.local import Failure


def print_json(value: Any) -> None:
    print(json.dumps(value, allow_nan=False))


def spread(value: dict[str, float | None] | None) -> str:
    """Mean ± standard deviation, as far as there are any."""
    if value is None:
        return "–"
    return f"{value['mean']:.1f}" + ("" if value["sd"] is None else f" ± {value['sd']:.1f}")


def raise_failures(results: Sequence[Record | Failure]) -> None:
    """Report the runs that failed, which did not stop the others, and make the exit code 1."""
    from bntricks.sweeps.local import Failure

    failed = [result for result in results if isinstance(result, Failure)]
    if failed:
        lines = (f"{f.config.method}, seed {f.config.seed}: {f.reason}" for f in failed)
        raise RunError("\n".join(lines))
