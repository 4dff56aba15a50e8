"""The leaderboard in a real browser: filters, dots, two rows compared, and a run's own part."""

import pytest

from bntricks.report.build import build
from bntricks.report.files import write
from bntricks.report.groups import group
from bntricks.report.records import by_seed
from bntricks.report.statistics import difference
from helpers.browsing import quiet_page
from helpers.records import HOSTILE, a_run, runs
from helpers.studies import confused

pytestmark = [pytest.mark.slow, pytest.mark.browser]

ER, BNT = [50.0, 52.0, 51.0, 49.5, 50.5, 51.5], [60.0, 61.5, 60.5, 62.0, 60.0, 61.0]


def trained():
    found = [*runs("er", ER), *runs("er-bnt", BNT), *runs("er", [30.0, 31.0], norm="gn")]
    found += [*runs("gem", [20.0]), *runs(HOSTILE, [10.0, 11.0, 12.0], epochs=2)]
    return [confused(run) for run in found]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    page = write(build(trained()), tmp_path_factory.mktemp("board"))
    return (page.parent / "leaderboard.html").as_uri()


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=str)
def opened(request, browser, address):
    scheme, width = request.param
    with quiet_page(browser, address, scheme=scheme, width=width) as page:
        page.wait_for_selector(".leaderboard.ready", timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("main b").count() == 0


def methods(page):
    return [
        text.split()[-1] for text in page.locator(".board tbody td:nth-child(2)").all_inner_texts()
    ]


def test_rows_are_sorted_and_each_run_is_a_dot(opened):
    assert methods(opened)[:3] == ["ER-BNT", "ER", "ER"]
    dots = opened.locator(".board tbody tr .dots")
    assert [dots.nth(i).locator("circle").count() for i in range(4)] == [6, 6, 2, 1]
    opened.get_by_label("Sorted by").select_option("BWT")
    assert methods(opened)[0] == "ER-BNT"


def test_rows_are_filtered_by_method_norm_correction_length_scale_and_stream(opened):
    tools = opened.locator(".board-tools")
    for name in ("Method", "Stream", "Scale", "Norm", "Correction", "Epochs"):
        assert tools.get_by_label(name, exact=True).count() == 1
    tools.get_by_label("Norm").select_option("gn")
    assert methods(opened) == ["ER"]
    assert tools.locator(".count").inner_text() == "1 of 1 rows shown, of 5 in all"
    tools.get_by_label("Norm").select_option("all")
    tools.get_by_label("Epochs").select_option("2")
    assert opened.locator(".board tbody tr").count() == 1


def test_two_rows_differ_as_statistics_says(opened):
    boxes = opened.locator(".board tbody input")
    boxes.nth(0).check()
    boxes.nth(1).check()
    er, bnt = (next(g for g in group(runs(m, f))) for m, f in (("er", ER), ("er-bnt", BNT)))
    for number, metric in enumerate(("acc", "bwt")):
        cells = opened.locator(
            f".differences tbody tr:nth-child({number + 1}) td"
        ).all_inner_texts()
        values = [text.splitlines()[-1] for text in cells]
        found = difference(by_seed(bnt.records, metric), by_seed(er.records, metric))
        assert values[3].endswith(f"{found.mean:.2f}")
        assert values[4].endswith(f"{found.low:.2f} to {found.high:.2f}")
        assert values[6].endswith("A is above B")
    assert "They differ in Method (ER-BNT, ER)." in opened.locator(".pair").inner_text()


def test_few_seeds_are_not_judged(opened):
    boxes = opened.locator(".board tbody input")
    boxes.nth(0).check()
    boxes.nth(2).check()
    assert "not judged: 2 seeds" in opened.locator(".differences").inner_text()
    assert "Norm (bn, gn)" in opened.locator(".pair").inner_text()
    boxes.nth(3).check()  # the third lets the first one go
    assert opened.locator(".board tbody input:checked").count() == 2


def test_the_keyboard_goes_from_dot_to_dot_and_to_the_run(opened):
    first = opened.locator(".board tbody tr").first.locator(".dots a")
    first.nth(0).focus()
    opened.keyboard.press("ArrowRight")
    assert (
        opened.evaluate("document.activeElement.getAttribute('aria-label')") == "seed 1: ACC 61.50"
    )
    opened.keyboard.press("Enter")
    opened.wait_for_selector(".run h3")
    run = opened.locator(".run")
    assert run.locator("h3").inner_text() == "ER-BNT on Seq-CIFAR-10, seed 1"
    assert opened.evaluate("document.activeElement.tagName") == "H3"
    assert run.locator("pre").inner_text().startswith("bnt run --method er-bnt")
    assert "--seed 1" in run.locator("pre").inner_text()
    assert run.locator(".heat").nth(0).locator("tbody tr").count() == 2
    confusion = run.locator(".heat").nth(1)
    assert confusion.locator("tbody td").count() == 4 * 5
    assert confusion.locator("tbody tr").nth(1).locator("td").nth(1).inner_text() == "40"
    assert run.locator("svg.curves circle").count() == 2


def test_a_link_to_a_run_opens_with_it(browser, address):
    run = trained()[0]
    name = run.config.identity(run.data.fingerprint)
    with quiet_page(browser, address, files=True) as page:
        page.goto(f"{address}#run-{name}")
        page.reload()
        page.wait_for_selector(".leaderboard.ready")
        assert page.locator(".run h3").inner_text() == "ER on Seq-CIFAR-10, seed 0"


def test_a_long_list_is_shown_in_parts(browser, tmp_path):
    many = [a_run(lr=0.01 + number / 1000) for number in range(70)]
    page = write(build(many), tmp_path).parent / "leaderboard.html"
    with quiet_page(browser, page.as_uri()) as opened:
        opened.wait_for_selector(".leaderboard.ready")
        assert opened.locator(".board tbody tr").count() == 50
        opened.get_by_role("button", name="Show 20 more").click()
        assert opened.locator(".board tbody tr").count() == 70
