"""A record says what computed it, so that runs of different machines or code are told apart."""

import ast

from bntricks.runs.config import Config
from bntricks.runs.describe import DECIDE_BITS, _outline, numerics, source_digest
from bntricks.runs.folder import run
from bntricks.runs.record import Numerics
from helpers.pages import ROOT

PLAIN = "def f(x: int) -> int:\n    return x + 1\n"
EXPLAINED = """'A module.'

def f(
    x: int,
) -> int:
    'Add one.'
    return x + 1  # one
"""


def test_comments_docstrings_and_layout_do_not_change_the_source_digest():
    assert _outline(ast.parse(PLAIN)) == _outline(ast.parse(EXPLAINED))


def test_every_change_of_what_is_computed_changes_it():
    for changed in (PLAIN.replace("1", "2"), PLAIN.replace("+", "-"), PLAIN.replace("x + 1", "x")):
        assert _outline(ast.parse(PLAIN)) != _outline(ast.parse(changed))


def test_what_decides_bits_is_there():
    for name in DECIDE_BITS:
        assert (ROOT / "src" / "bntricks" / name).exists(), name


def test_a_record_names_its_numerics_and_when_it_was_made(tmp_path):
    record = run(
        Config(method="sgd", stream="seq-digits", epochs=1, width=4, stages=1), out=tmp_path
    )
    assert record.numerics == numerics("cpu")
    assert record.numerics.source == source_digest()
    assert record.numerics.processor
    assert record.to_json()["numerics"]["instructions"]
    assert record.finished.tzinfo is not None
    assert isinstance(record.numerics, Numerics)
