"""The page of a diagnosis: whole without a network, safe with any name, silent in a browser."""

import json
import re
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

from bntricks import UserError, diagnose
from bntricks.doctor.charts import figures
from bntricks.doctor.tables import accuracy_table, layer_table
from helpers.browsing import quiet_page
from helpers.doctor_data import groups

HOSTILE = "<b>\"&'</script>"


@pytest.fixture(scope="module")
def diagnosis():
    """A diagnosis in which the group, and a class of none, have awkward names and answers."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
    data = groups(batches=3)
    with torch.no_grad():
        for _ in range(20):
            for x, _ in data["new"]:
                net(x)
    return diagnose(net, {"old": data["old"], HOSTILE: data["new"]})


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


def test_a_chart_that_would_have_no_point_is_left_out(tmp_path):
    net = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 6))
    same = groups(batches=3)["old"]
    diagnosis = diagnose(net, {"old": same, "new": [(x, y + 2) for x, y in same]})
    assert all(layer.shares is None for layer in diagnosis.layers)
    html = diagnosis.write_page(tmp_path / "p.html").read_text()
    charts = [attrs["id"] for _, attrs in Elements(html).elements if attrs.get("class") == "chart"]
    assert charts == ["accuracy", "gap", "distance", "answers"]


def test_the_page_holds_the_verdict_every_chart_and_no_markup_of_a_name(diagnosis, tmp_path):
    html = diagnosis.write_page(tmp_path / "p.html", command=HOSTILE).read_text()
    elements = Elements(html).elements
    assert not [tag for tag, _ in elements if tag in ("b", "link", "img", "iframe")]
    charts = [attrs["id"] for _, attrs in elements if attrs.get("class") == "chart"]
    assert charts == ["accuracy", "gap", "distance", "lean", "answers"]
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    specs = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)
    assert len(specs) == len(charts)
    for spec in specs:
        json.loads(spec, parse_constant=lambda name: pytest.fail(name))
        assert "://" not in spec


def test_charts_draw_the_numbers_of_the_diagnosis(diagnosis):
    drawn = {figure.name: figure.rows for figure in figures(diagnosis)}
    distance = {(row["layer"], row["measure"]): row["value"] for row in drawn["distance"]}
    layer = diagnosis.layers[0]
    assert distance[layer.name, "distance"] == layer.distance
    assert distance[layer.name, "mean shift"] == layer.shift
    assert distance[layer.name, "log variance ratio"] == layer.log_ratio
    assert drawn["lean"][0]["value"] == layer.shares[HOSTILE]
    shown = {(row["statistics"], row["part"]): row["accuracy"] for row in drawn["accuracy"]}
    assert shown["φ balanced", "old classes"] == diagnosis.balanced.old
    for name in ("φ as it is", "φ balanced"):
        for group in ("old", HOSTILE):
            row = [r for r in drawn["answers"] if (r["statistics"], r["group"]) == (name, group)]
            assert sum(r["share"] for r in row) == pytest.approx(100)


def test_tables_have_a_row_for_each_set_of_statistics_and_layer(diagnosis):
    rows = accuracy_table(diagnosis).rows
    assert [row[0].text for row in rows] == [f"φ {c.statistics}" for c in diagnosis.counterfactuals]
    assert rows[0][4].text == ""
    assert rows[1][4].number == diagnosis.balanced.old_difference.points
    assert [row[1].text for row in layer_table(diagnosis).rows] == ["1"]


def test_a_page_that_cannot_be_written_is_one_line(diagnosis, tmp_path):
    with pytest.raises(UserError, match=r"cannot write .*nowhere"):
        diagnosis.write_page(tmp_path / "nowhere" / "p.html")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_browser_shows_it_offline_without_a_message(diagnosis, browser, tmp_path, scheme, width):
    address = diagnosis.write_page(tmp_path / "p.html").as_uri()
    with quiet_page(browser, address, scheme=scheme, width=width) as page:
        page.wait_for_selector("html.ready", state="attached", timeout=20_000)
        assert page.locator(".chart svg").count() == len(list(figures(diagnosis)))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("main b").count() == 0
