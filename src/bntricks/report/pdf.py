"""An SVG as a PDF that is the same in every process. The library writes fonts, with all that they
refer to, in the order of a hash table; here everything is in the order in which it is needed."""

from __future__ import annotations

import re

import vl_convert

OBJECT = re.compile(
    rb"^(\d+) 0 obj\n(.*?)((?:\nstream\n.*?)?\nendobj\n\n)", re.DOTALL | re.MULTILINE
)
NAMED = re.compile(rb"( */[a-z]+\d+ \d+ 0 R\n){2,}")
"""What a page refers to, a line each, such as its fonts."""
REFERENCE = re.compile(rb"(\d+) 0 R\b")


def pdf(svg: str) -> bytes:
    content = vl_convert.svg_to_pdf(svg)
    begin, trailer = content.index(b"\n\n") + 2, content.rindex(b"trailer\n")
    objects = {n: (NAMED.sub(_sorted, head), rest) for n, head, rest in OBJECT.findall(content)}
    numbers: dict[bytes, int] = {}
    needed = REFERENCE.findall(content, trailer)
    while needed:
        if (number := needed.pop(0)) not in numbers:
            numbers[number] = len(numbers) + 1
            needed = REFERENCE.findall(objects[number][0]) + needed

    def renumbered(text: bytes) -> bytes:
        return REFERENCE.sub(lambda m: b"%d 0 R" % numbers[m[1]], text)

    written, places = content[:begin], [b"0000000000 65535 f\r\n"]
    for number, new in numbers.items():
        head, rest = objects[number]
        places.append(b"%010d 00000 n\r\n" % len(written))
        written += b"%d 0 obj\n%b%b" % (new, renumbered(head), rest)
    size = b"/Size %d" % len(places)
    end = re.sub(rb"/Size \d+", size, renumbered(content[trailer:]))
    end = re.sub(rb"(?<=startxref\n)\d+", b"%d" % len(written), end)
    return b"%bxref\n0 %d\n%b%b" % (written, len(places), b"".join(places), end)


def _sorted(lines: re.Match[bytes]) -> bytes:
    return b"".join(sorted(lines[0].splitlines(keepends=True)))
