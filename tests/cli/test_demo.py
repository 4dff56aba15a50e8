"""The demo: its table, the sentences under it, and its page, from runs of a moment."""

import json
import re
from collections import Counter
from dataclasses import asdict
from html import escape

import pytest

from bntricks.cli import demo
from bntricks.report.build import build
from bntricks.runs.folder import run
from bntricks.streams.sources.fashion import EMBEDDED
from helpers.command_line import bnt
from helpers.pages import ROOT
from helpers.records import a_run, runs

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Two seeds of the quick demo's compared methods, trained here, and what it writes."""
    out = tmp_path_factory.mktemp("demo")
    records = [
        run(config, data=EMBEDDED, out=out, probe="phi")
        for config in demo.plan(seeds=2, quick=True)
        if config.method in demo.COMPARED
    ]
    gains = demo.comparison(records)
    return records, gains, demo.write_page(records, gains, out)


def test_the_page_opens_with_the_answer_the_images_and_the_explorer(shown):
    _, _, page = shown
    html = page.read_text(encoding="utf-8")
    header = html[html.index("<header>") : html.index("</header>")]
    assert re.search(r"<h1>Same memory, (\d+ points (more|fewer)|and no difference)", header)
    assert demo.QUESTION in header
    first, second = html.split("<section")[1:3]
    assert first.count('src="data:image/png') == 10 * demo.PICTURES
    assert first.index("Shirt and Ankle boot") < first.index('type="range"')
    assert escape(demo.CHOSEN_ORDER) in first
    assert "What is known in the end" in second
    assert (page.parent / "figures" / "old-and-new.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("own", "other", "title"),
    [
        ([60.0, 62.0, 61.0], [50.0, 51.0, 52.0], "Same memory, 10 points more on old classes"),
        ([50.0, 51.0, 52.0], [60.0, 62.0, 61.0], "Same memory, 10 points fewer on old classes"),
        ([60.0, 40.0, 55.0], [50.0, 45.0, 50.0], "Same memory, and no difference shown"),
        ([60.0], [50.0], "Same memory, and no difference shown"),
    ],
)
def test_the_title_says_what_the_interval_does(own, other, title):
    report = build([*runs("er-bnt", own), *runs("er", other)])
    assert demo.answer(report)[0] == title


def test_the_terminal_shows_the_table_and_the_gain(shown, capsys, monkeypatch):
    records, gains, page = shown
    monkeypatch.setattr(demo, "write_page", lambda *parts: page)
    demo.show(records, page.parent, "too short")
    text = capsys.readouterr().out
    assert text.splitlines()[1].split() == ["method", "seeds", "ACC", "BWT", "forwards/step"]
    assert f"{gains}\n{demo.CHOSEN_ORDER}" in text
    assert "cost this model" not in text  # one seed's diagnosis says nothing of a method
    assert "(too short)" in text
    assert str(page) in text


def test_the_chosen_order_is_named_with_the_gain_in_the_data_set_s_own():
    assert "The class order was chosen" in demo.CHOSEN_ORDER
    assert "bnt demo --own-order" in demo.CHOSEN_ORDER
    assert demo.GAIN_IN_OWN_ORDER in demo.CHOSEN_ORDER
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert demo.CHOSEN_ORDER in readme, "run `python benchmarks/write_demo.py`"


def test_the_own_order_differs_from_the_demo_in_nothing_else():
    chosen, own = (demo.plan(seeds=2, quick=False, own_order=own) for own in (False, True))
    assert {config.class_order for config in own} == {None}
    assert [c.model_copy(update={"class_order": None}) for c in chosen] == own


def test_in_the_own_order_the_page_does_not_speak_of_a_chosen_one(shown, tmp_path):
    records, gains, _ = shown
    own = [
        record.model_copy(update={"config": record.config.model_copy(update={"class_order": None})})
        for record in records
    ]
    html = demo.write_page(own, gains, tmp_path).read_text(encoding="utf-8")
    first = html.split("<section")[1]
    assert escape(demo.OWN_ORDER) in first
    assert "was chosen" not in first
    assert "bnt demo --own-order" in html


def test_bounds_take_fewer_seeds_than_what_is_compared():
    planned = Counter(config.method for config in demo.plan(seeds=5, quick=False))
    assert planned == {"er": 5, "er-bnt": 5, "sgd": 2, "joint": 2}


def test_a_gain_that_is_not_shown_is_not_claimed():
    records = [*runs("er-bnt", [60.0, 40.0, 55.0]), *runs("er", [50.0, 45.0, 50.0])]
    assert "include zero, so these runs show no difference" in str(demo.comparison(records))


def test_a_demo_whose_compared_runs_failed_has_no_gain():
    assert demo.comparison([a_run("er"), a_run("sgd", memory=None)]) is None


def test_a_gain_is_plain_values_for_json(shown):
    gains = json.loads(json.dumps(asdict(shown[1]), allow_nan=False))
    assert [gain["metric"] for gain in gains["gains"]] == ["acc", "bwt"]
    assert gains["gains"][0]["difference"]["n"] == 2


@pytest.mark.slow
def test_the_quick_demo_compares_four_methods_and_goes_on_where_it_was(tmp_path):
    (tmp_path / "other data").mkdir()
    flags = ["demo", "--quick", "--seeds", "1"]
    done = bnt(*flags, "--json", cwd=tmp_path, BNT_DATA=str(tmp_path / "other data"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [r["method"] for r in result["rows"]] == ["sgd", "er", "er-bnt", "joint"]
    assert (result["gains"]["method"], result["gains"]["other"]) == ("er-bnt", "er")
    assert "too short" in result["note"]
    assert result["class_order"] == demo.ORDER
    again = bnt(*flags, cwd=tmp_path)
    assert again.stderr.count("already there") == 4
    assert "one seed has no interval" in again.stdout
    assert "too short to show the effect" in again.stdout
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 4
    assert (tmp_path / "runs" / "report.html").stat().st_size > 100_000
