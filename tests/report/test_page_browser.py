"""The page in a real browser, from the file system: silent, offline, and answering to hands."""

from dataclasses import replace

import pytest

from bntricks.paper import load_study
from bntricks.report.build import build
from bntricks.report.files import write
from bntricks.report.records import load_records
from helpers.browsing import quiet_page
from helpers.feature_maps import of_statistics, written
from helpers.records import HOSTILE, runs

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FINALS = {"er": 50.0, "er-bnt": 65.0, "gem": 9.0, HOSTILE: 30.0}
TITLES = {"ER", "ER-BNT", "GEM", HOSTILE}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    study = load_study("main")
    knobs = study.values("lite", "seq-cifar10")
    trained = [run for m, final in FINALS.items() for run in runs(m, [final, final + 1], **knobs)]
    folder = tmp_path_factory.mktemp("page")
    mapped = load_records([written(folder, {"statistics": of_statistics()})])
    report = replace(build(trained, study, "lite"), maps=build(mapped).maps)
    return write(report, folder).as_uri()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=str)
def opened(request, browser, address):
    """The page, which says nothing and asks for nothing."""
    scheme, width = request.param
    with quiet_page(browser, address, scheme=scheme, width=width) as page:
        page.wait_for_selector("html.ready", state="attached", timeout=20_000)
        yield page


def column(page, number):
    cells = page.locator(f"#results-table tbody tr:visible td:nth-child({number})")
    return cells.all_inner_texts()


def luminance(page, expression):
    red, green, blue = page.evaluate(f"({expression}).match(/[0-9.]+/g).slice(0, 3).map(Number)")
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def all_numbers(page):
    """The list below the table of the paper's form, which is folded away at first."""
    page.get_by_text("All numbers of all rows").click()


def test_the_table_sorts_by_acc_with_the_keyboard(opened):
    all_numbers(opened)
    head = opened.locator("#results-table th", has_text="ACC").first
    head.locator("button").focus()
    opened.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(opened, 2) == ["ER-BNT", "ER", HOSTILE, "GEM"]
    opened.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(opened, 2) == ["GEM", HOSTILE, "ER", "ER-BNT"]


def test_the_table_filters_to_one_method(opened):
    all_numbers(opened)
    tools = opened.locator('.tools[data-table="results-table"]')
    tools.get_by_label("Method").select_option("ER")
    assert column(opened, 2) == ["ER"]
    assert tools.locator(".count").inner_text() == "1 of 4 rows"
    tools.get_by_label("Method").select_option("")
    tools.get_by_label("Rows with").fill("bnt")
    assert column(opened, 2) == ["ER-BNT"]


def opacities(page):
    points = '#curves-seq-cifar10 path[aria-roledescription="point"]'
    found = page.locator(points).evaluate_all(
        "all => all.map(p => [p.getAttribute('aria-label'), p.getAttribute('opacity') ?? '1'])"
    )
    return {label.split("method: ")[1].split(";")[0]: float(shown) for label, shown in found}


def test_a_click_on_a_name_picks_a_method_out_and_another_lets_go(opened):
    assert set(opacities(opened).values()) == {1.0}
    entry = opened.locator("#curves-seq-cifar10 svg text", has_text="ER-BNT")
    entry.click()
    opened.wait_for_timeout(100)
    shown = opacities(opened)
    assert shown.pop("ER-BNT") == 1.0
    assert max(shown.values()) < 0.5
    entry.click()
    opened.wait_for_timeout(100)
    assert set(opacities(opened).values()) == {1.0}


def test_a_box_hides_a_method_in_every_figure(opened):
    opened.get_by_label("ER-BNT", exact=True).focus()
    opened.keyboard.press("Space")
    opened.wait_for_timeout(200)
    assert set(opacities(opened)) == TITLES - {"ER-BNT"}
    headers = opened.locator("#matrices-seq-cifar10 svg text").all_text_contents()
    assert "ER" in headers
    assert "ER-BNT" not in headers


def test_a_cell_of_the_matrix_tells_its_value_on_hover(opened):
    cells = opened.locator('#matrices-seq-cifar10 path[aria-roledescription="rect mark"]')
    cells.locator("visible=true").last.scroll_into_view_if_needed()
    cells.last.hover(force=True)
    tip = opened.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert f"method\t{HOSTILE}" in tip.inner_text()
    assert "accuracy, %\t30.50" in tip.inner_text()
    assert tip.locator("b").count() == 0


def test_a_point_of_a_map_tells_label_and_prediction_and_shows_its_image_on_hover(opened):
    points = opened.locator('#map-statistics-seq-cifar10 path[aria-roledescription="point"]')
    assert points.count() == 2 * 8
    points.nth(10).scroll_into_view_if_needed()
    points.nth(10).hover(force=True)  # the second panel's third image
    tip = opened.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert f"label\t{HOSTILE}" in tip.inner_text()
    assert "predicted\t=1+1" in tip.inner_text()
    image = tip.locator("img")
    assert image.get_attribute("src") == of_statistics().images[2]
    assert image.evaluate("i => i.complete && i.naturalWidth") == 8
    assert tip.locator("b").count() == 0


def test_names_are_text_and_nothing_is_wider_than_the_window(opened):
    assert opened.locator("main b").count() == 0
    width = opened.evaluate("document.documentElement.scrollWidth")
    assert width <= opened.viewport_size["width"]
    assert opened.locator(".chart svg").count() == 6  # no cost: it is the same for all


def test_ink_and_paper_follow_the_scheme_and_print_is_light(opened):
    dark = opened.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.role-axis-label text')).fill"
    assert (luminance(opened, paper) < 0.5) == dark
    assert (luminance(opened, ink) > 0.5) == dark
    opened.emulate_media(media="print")
    assert luminance(opened, paper) == pytest.approx(1.0)
    assert luminance(opened, ink) < 0.2
    assert not opened.locator("nav").is_visible()


def test_the_first_stop_of_the_keyboard_skips_to_the_content(opened):
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    assert opened.locator(".skip").bounding_box()["x"] >= 0
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.activeElement.id") == "main"
