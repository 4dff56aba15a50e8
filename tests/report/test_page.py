"""The page: whole without any network, safe with any name, and the same numbers as the tables."""

import json
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from bntricks.cli import app
from bntricks.errors import UserError
from bntricks.paper import load_study
from bntricks.report import write_report
from bntricks.report.commands import caveat, command
from bntricks.report.page import Section, write_page
from bntricks.runs.config import Config
from helpers.records import HOSTILE, a_run


class Elements(HTMLParser):
    """Every element of a page, and its text outside of scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text, self.inside = [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.text.append(data)


def page(tmp_path, records, **parts):
    return write_page(tmp_path / "p.html", records, **parts).read_text()


def parsed(tmp_path, records, **parts):
    return Elements(page(tmp_path, records, **parts))


@pytest.fixture
def two_methods():
    return [a_run("er", s, 50.0 + s) for s in (0, 1)] + [a_run("er-bnt", s, 60.0) for s in (0, 1)]


def test_nothing_is_loaded_from_anywhere(tmp_path, two_methods):
    html = page(tmp_path, two_methods, command="bnt report runs")
    elements = Elements(html)
    assert not [tag for tag, _ in elements.found if tag in ("link", "img", "iframe", "object")]
    for _, attrs in elements.found:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
        assert not [name for name in attrs if name.startswith("on")]
    assert not re.search(r"@import|url\(", html[: html.index("</style>")])
    specs = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)
    assert len(specs) == 4
    assert not any("://" in spec for spec in specs)


def test_the_policy_allows_only_the_two_scripts_of_the_page(tmp_path, two_methods):
    elements = parsed(tmp_path, two_methods)
    (policy,) = [a["content"] for tag, a in elements.found if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 2
    scripts = policy.split(";")[1]
    assert "unsafe" not in scripts


def test_hostile_names_are_only_text(tmp_path):
    run = a_run(HOSTILE, hyper={HOSTILE: 1.0}, stream=f"s{HOSTILE}", path=f"runs/{HOSTILE}")
    html = page(tmp_path, [run], title=HOSTILE, command=HOSTILE)
    elements = Elements(html)
    assert not [tag for tag, _ in elements.found if tag == "b"]
    assert HOSTILE in "".join(elements.text)
    assert html.count("<script") == html.count("</script>") == 6
    for spec in re.findall(r'application/json" id="[^"]*">(.*?)</script>', html, re.S):
        assert json.loads(spec)["params"]
        assert "<" not in spec


def test_every_part_is_there_and_linked(tmp_path, two_methods):
    further = [Section("maps", "Maps", "<p>Maps of features</p>")]
    elements = parsed(tmp_path, two_methods, further=further, title="My runs", command="bnt x")
    names = [a["id"] for tag, a in elements.found if tag == "section"]
    assert names == ["results", "stream-1", "maps", "runs"]
    links = [a["href"] for tag, a in elements.found if tag == "a"]
    assert links == ["#main", *(f"#{name}" for name in names)]
    charts = [a["id"] for _, a in elements.found if a.get("class") == "chart"]
    assert charts == [f"{kind}-seq-cifar10" for kind in ("curves", "per-task", "matrices", "cost")]
    text = " ".join(elements.text)
    assert all(part in text for part in ("My runs", "50.50 ± 0.71", "61.62 ± 1.59", "bnt x"))


def test_cut_down_data_is_said_in_the_head_the_table_and_the_figures(tmp_path):
    text = " ".join(parsed(tmp_path, [a_run(cut_down=True)]).text)
    assert "Some numbers are of cut-down data." in text
    assert "cut-down (200 of 50000)" in text
    assert "ACC after each task, Seq-CIFAR-10 (cut-down data)" in text
    assert "cut-down" not in " ".join(parsed(tmp_path, [a_run()]).text)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"seed": 3, "epochs": 2, "lr": 0.1, "images_per_class": 7, "precision": "bf16"},
        {"as_published": True, "balance": "ratio", "hyper": {"alpha": 0.1, "beta": -2.0}},
        {"tasks": ["cat,dog's", '["[b] <owl>", "-x"]'], "stream": "folder", "memory": None},
    ],
)
def test_the_command_of_a_run_asks_for_the_same_run(knobs):
    run = a_run(**{"method": "der++", **knobs})
    words = shlex.split(command(run))
    assert words[0] == "bnt"
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    asked = bound.arguments["config"].model_copy(update={"hyper": bound.arguments.get("hyper", {})})
    assert asked == Config(**run["config"])


def test_what_a_command_cannot_say_is_said_beside_it():
    assert caveat(a_run()) == ""
    assert "200 training images with fingerprint ffff" in caveat(a_run(cut_down=True))


def test_a_report_is_tables_figures_and_the_page(tmp_path):
    study = load_study("pilot")
    knobs = study.values("lite", "seq-cifar10")
    runs = [
        a_run(m, s, f + s, **knobs) for m, f in (("er", 60), ("er-cur+buf", 70)) for s in (0, 1)
    ]
    found = write_report(runs, tmp_path / "new" / "report", study, "lite", command="bnt report x")
    folder = found.parent
    assert found == tmp_path / "new" / "report" / "report.html"
    tables = {f"{name}.{end}" for name in ("results", "verdicts") for end in ("md", "csv", "tex")}
    assert {p.name for p in folder.iterdir()} == {*tables, "figures", "report.html"}
    kinds = ("curves-seq-cifar10", "per-task-seq-cifar10", "matrices-seq-cifar10")
    names = (*kinds, "cost-seq-cifar10", "differences")
    assert {p.name for p in (folder / "figures").iterdir()} == {
        f"{name}.{end}" for name in names for end in ("svg", "pdf", "png", "csv")
    }
    text = found.read_text()
    assert f"<title>{study.title} (lite scale)</title>" in text
    ids = [attrs["id"] for _, attrs in Elements(text).found if "id" in attrs]
    assert {"verdicts", "verdict-table", "differences"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_report_needs_no_torch(tmp_path):
    (tmp_path / "record.json").write_text(json.dumps(a_run()))
    code = (
        "import sys; from bntricks.report import write_report;"
        "from bntricks.report.records import load_records;"
        f"write_report(load_records([{str(tmp_path)!r}]), {str(tmp_path / 'report')!r});"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_study_of_mixed_protocols_is_refused_before_anything_is_written(tmp_path):
    study = load_study("pilot")
    knobs = study.values("lite", "seq-cifar10")
    runs = [a_run("er", 0, **knobs), a_run("er", 1, **{**knobs, "epochs": 3})]
    with pytest.raises(UserError, match=r"mixed protocols: er .* differ in epochs"):
        write_report(runs, tmp_path / "report", study, "lite")
    assert not (tmp_path / "report").exists()


def test_what_cannot_be_reported_is_said(tmp_path, two_methods):
    with pytest.raises(UserError, match="no runs to report"):
        write_report([], tmp_path / "report")
    with pytest.raises(UserError, match="give both, or neither"):
        write_report(two_methods, tmp_path / "report", load_study("pilot"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write the report to .*file"):
        write_report(two_methods, tmp_path / "file")
