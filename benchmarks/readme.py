"""Parts of README.md that scripts write: each stands between two comments with its name."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def part(name: str) -> str:
    """What stands there now."""
    found = _block(name).search(README.read_text(encoding="utf-8"))
    assert found is not None, f"README.md has no part {name}"
    return found[0].strip("\n")


def put(name: str, text: str) -> None:
    """Have this text there instead."""
    before = README.read_text(encoding="utf-8")
    README.write_text(_block(name).sub(lambda _: f"\n{text}\n\n", before), encoding="utf-8")


def _block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
