"""The explorer in a real browser: hands, keyboard, other methods, no scripts."""

import pytest

from bntricks.report.explorer.page import write_explorer
from bntricks.report.explorer.scenes import scenes
from helpers.browsing import quiet_page
from helpers.probed import a_pair, a_probed_run

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    runs = [*a_pair(), a_probed_run("er-ace"), a_probed_run("der++", epochs=7)]
    runs += [a_probed_run("der++-bnt", epochs=7, shares=(0.2, 0.6))]
    return write_explorer(scenes(runs), tmp_path_factory.mktemp("e") / "e.html").as_uri()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=str)
def opened(request, browser, address):
    scheme, width = request.param
    with quiet_page(browser, address, scheme=scheme, width=width) as page:
        page.wait_for_selector(".explorer.ready", timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        yield page


def shown(page):
    """Accuracies of the bars, by method and part."""
    labels = page.locator('.bars path[aria-roledescription="bar"]').evaluate_all(
        "all => all.map(each => each.getAttribute('aria-label'))"
    )
    return [float(label.split("accuracy, %: ")[1].split(";")[0]) for label in labels]


def test_the_keyboard_moves_bars_and_words(opened):
    slider = opened.get_by_label("Share of the newest task")
    assert shown(opened) == [43.0, 82.0, 53.0, 82.0]
    slider.focus()
    opened.keyboard.press("End")
    opened.wait_for_timeout(100)
    assert shown(opened) == [51.0, 90.0, 21.0, 90.0]
    assert "At 100% (measured)" in slider.get_attribute("aria-valuetext")
    opened.keyboard.press("ArrowLeft")
    assert "At 99% (interpolated" in opened.locator(".said").inner_text()
    opened.wait_for_timeout(100)
    assert shown(opened)[0] == 50.9


def test_a_button_goes_to_a_method_s_own_share(opened):
    opened.get_by_role("button", name="as Replay (ER) trains: 60%").click()
    assert "At 60% (measured)" in opened.locator(".said").inner_text()


def test_other_methods_and_another_scene_can_be_chosen(opened):
    opened.locator("select.line").nth(0).select_option(label="ER-ACE")
    opened.wait_for_timeout(300)
    assert "ER-ACE" in opened.locator(".curve svg").text_content()
    assert "--method er-ace" in opened.locator(".commands").inner_text()
    opened.locator("select.scene").select_option(index=1)
    opened.wait_for_timeout(300)
    assert "DER++-BNT" in opened.locator(".tasks svg").text_content()
    slider = opened.get_by_label("Share of the newest task")
    slider.focus()
    for key, share, accuracy in (("End", 60, 48.0), ("Home", 20, 56.0)):
        opened.keyboard.press(key)  # as far as both were measured
        opened.wait_for_timeout(100)
        assert f"At {share}% (measured)" in opened.locator(".said").inner_text()
        assert shown(opened)[2] == accuracy


def test_without_scripts_it_is_a_picture_and_a_table(browser, address):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(address)
    assert page.locator(".live svg").count() == 3
    assert not page.locator(".slide").is_visible()
    page.get_by_text("Measured numbers").click()
    assert page.locator("#explorer-numbers").is_visible()
    context.close()
