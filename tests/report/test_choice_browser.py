"""A report of more rows than can be drawn, in a real browser: the reader chooses a dozen."""

import re

import pytest

from bntricks.report.build import build
from bntricks.report.page.page import report_html
from helpers.browsing import quiet_page
from helpers.records import runs
from helpers.studies import confused

pytestmark = [pytest.mark.slow, pytest.mark.browser]

METHODS = ("er", "er-bnt", "der++", "der++-bnt", "gem", "mine")
NORMS = ("bn", "gn", "ln")
FIGURES = ("curves", "per-task", "over-time", "matrices", "confusion")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    trained = [
        confused(run)
        for place, method in enumerate(METHODS)
        for norm in NORMS
        for run in runs(method, [20.0 + place, 24.0 + place], norm=norm)
    ]
    page = tmp_path_factory.mktemp("choice") / "report.html"
    page.write_text(report_html(build(trained)), encoding="utf-8")
    return page.as_uri()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=str)
def opened(request, browser, address):
    scheme, width = request.param
    with quiet_page(browser, address, scheme=scheme, width=width) as page:
        page.wait_for_selector("html.ready", state="attached", timeout=20_000)
        page.evaluate(
            "document.querySelectorAll('details:has(.chart)').forEach(d => d.open = true)"
        )
        page.wait_for_timeout(1500)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def drawn(page, kind="curves"):
    """Labels of a figure's marks, with their colours."""
    marks = f'#{kind}-seq-cifar10 path[aria-roledescription="point"]'
    found = page.locator(marks).evaluate_all(
        "all => all.map(p => [p.getAttribute('aria-label'), p.getAttribute('fill')])"
    )
    return {re.search(r"method: ([^;]+)", label)[1]: colour for label, colour in found}


def test_a_dozen_is_drawn_at_first_and_boxes_of_others_wait(opened):
    boxes = opened.locator(".chooser tbody input")
    assert boxes.count() == len(METHODS) * len(NORMS)
    assert opened.locator(".chooser tbody input:checked").count() == 12
    assert opened.locator(".chooser tbody input:disabled").count() == 6
    assert len(drawn(opened)) == 12
    assert "18 of 18 rows, 12 drawn (at most 12)" in opened.locator(".chooser .count").inner_text()


def test_facets_choose_what_every_figure_draws_in_the_same_colours(opened):
    before = drawn(opened)
    opened.locator(".chooser").get_by_label("Norm", exact=True).select_option("gn")
    opened.get_by_role("button", name="Draw the first dozen shown").click()
    opened.wait_for_timeout(1500)
    colours = drawn(opened)
    assert set(colours) == {"ER", "ER-BNT", "DER++", "DER++-BNT", "GEM", "mine"}
    assert {colours[name] for name in ("ER", "DER++")} <= set(before.values())
    assert drawn(opened, "per-task") == colours
    for kind in FIGURES:
        title = opened.locator(f"#{kind}-seq-cifar10-common").inner_text()
        assert title.strip() == "(norm gn)"
    texts = opened.locator("#matrices-seq-cifar10 svg text").all_text_contents()
    assert {"ER", "mine"} <= set(texts)


def test_the_numbers_of_a_figure_are_of_what_is_drawn(opened):
    rows = opened.locator("#curves-seq-cifar10-numbers tbody tr")
    assert rows.count() == 12 * 2
    boxes = opened.locator(".chooser tbody input:checked")
    for _ in range(11):
        boxes.first.uncheck()
    opened.wait_for_timeout(1500)
    assert rows.count() == 2
    boxes.first.uncheck()
    opened.wait_for_timeout(500)
    assert "None of the rows" in opened.locator("#curves-seq-cifar10").inner_text()


def test_every_cell_of_a_confusion_has_a_colour(opened):
    cells = opened.locator('#confusion-seq-cifar10 path[aria-roledescription="rect mark"]')
    assert cells.count() == 12 * 16
    fills = cells.evaluate_all("all => all.map(cell => cell.getAttribute('fill'))")
    assert all(fills)
