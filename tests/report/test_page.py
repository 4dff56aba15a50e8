"""The page: whole without any network, safe with any name, and the same numbers as the tables."""

import json
import re
import shlex
from html.parser import HTMLParser

import pytest

from bntricks.cli import app
from bntricks.report.build import build
from bntricks.report.commands import caveat, run_command
from bntricks.report.page.page import LEADERBOARD, report_html
from helpers.records import HOSTILE, a_run, runs


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


def page(records, **parts):
    return report_html(build(records, **parts))


def parsed(records, **parts):
    return Elements(page(records, **parts))


@pytest.fixture
def two_methods():
    return [*runs("er", [50.0, 51.0]), *runs("er-bnt", [60.0, 60.0])]


def test_nothing_is_loaded_from_anywhere(two_methods):
    html = page(two_methods, command="bnt report runs")
    elements = Elements(html)
    assert not [tag for tag, _ in elements.found if tag in ("link", "img", "iframe", "object")]
    for _, attrs in elements.found:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#") or attrs["href"] == LEADERBOARD
        assert not [name for name in attrs if name.startswith("on")]
    assert not re.search(r"@import|url\(", html[: html.index("</style>")])
    specs = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)
    assert len(specs) == 4
    assert not any("://" in spec for spec in specs)


def test_the_policy_allows_only_the_two_scripts_of_the_page(two_methods):
    elements = parsed(two_methods)
    (policy,) = [a["content"] for tag, a in elements.found if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 2
    scripts = policy.split(";")[1]
    assert "unsafe" not in scripts


def test_hostile_names_are_only_text():
    run = a_run(HOSTILE, hyper={HOSTILE: 1.0}, stream=f"s{HOSTILE}", path=f"runs/{HOSTILE}")
    html = page([run], title=HOSTILE, command=HOSTILE)
    elements = Elements(html)
    assert not [tag for tag, _ in elements.found if tag == "b"]
    assert HOSTILE in "".join(elements.text)
    assert html.count("<script") == html.count("</script>") == 6
    for spec in re.findall(r'application/json" id="[^"]*">(.*?)</script>', html, re.S):
        assert json.loads(spec)["description"]
        assert "<" not in spec


def test_every_part_is_there_and_linked(two_methods):
    elements = parsed(two_methods, title="My runs", command="bnt x")
    names = [a["id"] for tag, a in elements.found if tag == "section"]
    assert names == ["overview", "results", "stream-1", "runs"]
    links = [a["href"] for tag, a in elements.found if tag == "a"]
    assert links == ["#main", *(f"#{name}" for name in names), LEADERBOARD]
    charts = [a["id"] for _, a in elements.found if a.get("class") == "chart"]
    kinds = ("curves", "per-task", "over-time", "matrices")
    assert charts == [f"{kind}-seq-cifar10" for kind in kinds]
    text = " ".join(elements.text)
    assert all(part in text for part in ("My runs", "50.50 ± 0.71", "61.62 ± 1.59", "bnt x"))


def test_cut_down_data_is_said_in_the_head_the_table_and_the_figures():
    text = " ".join(parsed([a_run(cut_down=True)]).text)
    assert "Learned from cut-down data." in text
    assert "cut-down (200 of 50000)" in text
    assert "ACC after each task, Seq-CIFAR-10 (cut-down data)" in text
    assert "cut-down" not in " ".join(parsed([a_run()]).text)


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
    words = shlex.split(run_command(run.config))
    assert words[0] == "bnt"
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    asked = bound.arguments["config"].model_copy(update={"hyper": bound.arguments.get("hyper", {})})
    assert asked == run.config


def test_the_command_of_a_run_that_was_split_splits_it():
    words = run_command(a_run("er", ranks=2, synchronised=True).config)
    assert words.startswith("bnt run --method er ")
    assert "--synchronised" in words
    assert "--ranks 2" in words


def test_what_a_command_cannot_say_is_said_beside_it():
    assert caveat(a_run()) == ""
    assert "200 training images with fingerprint ffff" in caveat(a_run(cut_down=True))
