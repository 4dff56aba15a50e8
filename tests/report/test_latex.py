"""Tables for LaTeX: plain ASCII, one package, and no wider than a page."""

import re
import shutil
import subprocess

import pytest

from bntricks.paper import load_study
from bntricks.report.build import build
from bntricks.report.files import table_files
from bntricks.report.groups import group
from bntricks.report.tables.latex import latex, to_latex
from bntricks.report.tables.paper_form import paper_form
from bntricks.report.tables.results import cost_table, printed_verdicts, verdict_table
from bntricks.report.tables.table import Cell, Table
from bntricks.report.verdicts import verdicts
from helpers.records import HOSTILE, a_run
from helpers.studies import study_runs

DOCUMENT = r"""\documentclass[%s]{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


@pytest.fixture(scope="module")
def sources():
    """Every table of every kind of study, and of methods with hostile names."""
    tables = []
    for name, scale in (("main", "paper"), ("ablation", "lite"), ("buffers", "medium")):
        study, groups = load_study(name), group(study_runs(name, scale))
        claims = verdict_table(verdicts(study, scale, groups), "(cut-down data)")
        tables += [paper_form(groups, study), cost_table(groups), printed_verdicts(claims)]
    hostile = group([a_run(HOSTILE), a_run("grüße-黒²"), a_run("x" * 60)])
    return [to_latex(table) for table in (*tables, paper_form(hostile), cost_table(hostile))]


def test_the_source_is_ascii_and_names_one_package(sources):
    for text in sources:
        assert text.isascii()
        assert re.findall(r"usepackage\{(\w+)\}", text) == ["booktabs"]


def test_letters_that_are_not_ascii_are_written_out():
    assert latex("naïve ±2 ≈ −1 café") == r"na\"{i}ve $\pm$2 $\approx$ $-$1 caf\'{e}"
    assert latex("2/2ⁿ 黒") == "2/2{[}U+207F{]} {[}U+9ED2{]}"
    assert latex("B_t ∪ B_M with |M|") == (
        r"$\mathcal{B}_t$ $\cup$ $\mathcal{B}_{\mathcal{M}}$ with $|\mathcal{M}|$"
    )
    assert latex("my_B_tree") == r"my\_B\_tree"
    assert latex("a--b---c") == "a-{}-b-{}-{}-c"


def test_a_row_that_is_higher_than_a_page_makes_no_empty_table():
    rows = tuple((Cell("m"), Cell("word " * 2000)) for _ in range(2))
    text = to_latex(Table("T", ("Method", "Text"), rows))
    assert text.count(r"\begin{tabular}") == text.count("\nm &") == 2


def test_a_wide_table_is_cut_between_heads_and_repeats_its_first_column():
    names = tuple("abcdef")
    cells = (Cell("m"), *(Cell("-50.00 ± 10.00", -50.0, 10.0) for _ in names for _ in range(2)))
    heads = ("", *(name for name in names for _ in range(2)))
    text = to_latex(Table("T", ("Method", *["ACC", "BWT"] * 6), (cells,), ("A remark.",), heads))
    assert text.count(r"\begin{tabular}") > 1
    assert text.count("Method &") == text.count("\nm &") == text.count(r"\begin{tabular}")
    assert [text.count(rf"\multicolumn{{2}}{{c}}{{{name}}}") for name in names] == [1] * 6
    assert text.count("A remark.") == 1


def test_cost_and_data_are_a_table_of_their_own():
    files = table_files(build(study_runs("pilot", seeds=1), load_study("pilot"), "lite"))
    assert "Forwards/step" in files["cost.tex"]
    assert "Forwards/step" not in files["results.tex"]
    assert "Forwards/step" in files["results.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "twocolumn"])
def test_a_real_tex_sets_every_table_without_complaint(sources, options, tmp_path):
    tex = shutil.which("pdflatex")
    if tex is None:
        pytest.skip("needs pdflatex with booktabs")
    whole = "\n\\clearpage\n".join(sources)
    (tmp_path / "tables.tex").write_text(DOCUMENT % (options, whole), encoding="ascii")
    command = [tex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "tables"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "tables.log").read_text(encoding="latin-1")
    assert not re.findall(r"^(?:Overfull|LaTeX Warning: Float too large).*", log, re.MULTILINE)
