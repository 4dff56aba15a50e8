"""What stands on the project's pages: blocks of Python, commands, links."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WITH_COMMANDS = [*PAGES, ROOT / "benchmarks" / "README.md"]

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
STARTED = ("bnt ", "torchrun ")


class Command(NamedTuple):
    words: tuple[str, ...]
    """What follows `bnt`."""
    whole: bool
    """A line to type, not a fragment within a sentence or before dots."""
    line: int


def name(page):
    return str(page.relative_to(ROOT))


def python_blocks(text):
    """The blocks of Python with the line that each begins on."""
    return [
        (text.count("\n", 0, block.start(2)) + 1, block[2])
        for block in FENCED.finditer(text)
        if block[1] == "python"
    ]


def commands(text):
    """Every `bnt` line in a block, indented or fenced, and every `bnt` within a sentence."""
    code, lines = False, text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("```"):
            code = not code
        elif code or line.startswith("    "):
            if line.strip().startswith(STARTED):
                yield _command(_continued(lines[number - 1 :]), number, whole=True)
        else:
            for span in SPAN.findall(line):
                if span.startswith("bnt "):
                    yield _command(span, number, whole=False)


def links(text):
    """Addresses of links and images, code aside."""
    return LINK.findall(SPAN.sub("", FENCED.sub("", text)))


def anchors(text):
    """What a link into a page can point at: its headings."""
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _continued(lines):
    parts = []
    for line in lines:
        parts.append(line.strip().removesuffix("\\"))
        if not line.endswith("\\"):
            break
    return " ".join(parts)


def _command(text, line, *, whole):
    words = shlex.split(text, comments=True)
    words = words[1:] if words[0] == "bnt" else words[words.index("bntricks") + 1 :]
    known = [word for word in words if word not in ("…", "...")]
    return Command(tuple(known), whole and known == words, line)
