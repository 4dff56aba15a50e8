"""Figures as PDF: the same bytes in every process."""

import re
import subprocess
import sys

import vl_convert

from bntricks.report.files import pdf

WORDS = "".join(
    f'<text x="5" y="{20 * k}" font-family="{family}" font-weight="{weight}">φ of Bp, {k}</text>'
    for k, (family, weight) in enumerate(
        [("Arial", "normal"), ("Arial", "bold"), ("serif", "normal"), ("monospace", "bold")], 1
    )
)
DRAWING = f'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100">{WORDS}</svg>'
ELSEWHERE = "import sys; from bntricks.report.files import pdf; sys.stdout.buffer.write(pdf({!r}))"


def test_two_processes_draw_the_same_bytes():
    done = subprocess.run([sys.executable, "-c", ELSEWHERE.format(DRAWING)], capture_output=True)
    assert {pdf(DRAWING) for _ in range(5)} == {done.stdout}


def test_what_is_put_in_order_is_the_same_document():
    """No object is lost or changed, and the table at the end says where each of them is."""
    content, given = pdf(DRAWING), vl_convert.svg_to_pdf(DRAWING)
    stream = re.compile(rb"\nstream\n.*?\nendstream\n", re.DOTALL)
    assert sorted(stream.findall(content)) == sorted(stream.findall(given))
    table = content.index(b"xref\n")
    assert int(re.search(rb"startxref\n(\d+)", content)[1]) == table
    places = re.findall(rb"(\d{10}) 00000 n\r\n", content[table:])
    assert len(places) == given.count(b" 00000 n\r\n")
    for number, place in enumerate(places, start=1):
        assert content[int(place) :].startswith(b"%d 0 obj\n" % number)
    references = re.findall(rb"(\d+) 0 R\b", stream.sub(b"", content))
    assert {*map(int, references)} == {*range(1, len(places) + 1)}
