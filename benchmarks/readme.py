"""Parts of pages that scripts write: each stands between two comments with its name."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def part(name: str, page: Path = README) -> str:
    """What stands there now."""
    found = _block(name).search(page.read_text(encoding="utf-8"))
    assert found is not None, f"{page.name} has no part {name}"
    return found[0].strip("\n")


def put(name: str, text: str, page: Path = README) -> None:
    """Have this text there instead."""
    before = page.read_text(encoding="utf-8")
    page.write_text(_block(name).sub(lambda _: f"\n{text}\n\n", before), encoding="utf-8")


def _block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
