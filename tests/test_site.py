"""The documentation as a site: whole, and of use without a server or a network."""

import re
import subprocess
import sys

import pytest

import bntricks
from helpers.browsing import quiet_page
from helpers.pages import DOCS, links

pytestmark = [pytest.mark.slow, pytest.mark.journey]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as `make docs` does it, where a broken link is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-d", folder / "trees", DOCS, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there_and_every_public_name(site):
    assert {page.stem for page in DOCS.glob("*.md")} <= {page.stem for page in site.glob("*.html")}
    pages = [path.read_text(encoding="utf-8") for path in site.glob("api/*.html")]
    for name, module in bntricks._modules().items():
        assert sum(f'id="{module}.{name}"' in page for page in pages) == 1
        assert f"#{module}.{name}" in (site / "api.html").read_text(encoding="utf-8")
    for path in ("options.py", "recipes/language.py", "cli/app.py"):
        folder, name = path.split("/") if "/" in path else ("bntricks", path)
        assert name in (site / "api" / f"{folder}.html").read_text(encoding="utf-8")


def test_every_figure_is_shown_somewhere():
    pages = [*DOCS.glob("*.md"), *DOCS.glob("evidence/*.md")]
    shown = {
        (page.parent / link).resolve()
        for page in pages
        for link in links(page.read_text(encoding="utf-8"))
    }
    assert {figure.resolve() for figure in DOCS.glob("figures/*.svg")} <= shown


def test_the_site_has_the_explorer_and_a_table_of_every_claim(site):
    assert 'src="explorer.html"' in (site / "README.html").read_text(encoding="utf-8")
    explorer = (site / "explorer.html").read_text(encoding="utf-8")
    assert all(stream in explorer for stream in ("seq-fashion", "Seq-CIFAR-10"))
    assert 'href="claims.html"' in (site / "results.html").read_text(encoding="utf-8")
    rows = (site / "claims.html").read_text(encoding="utf-8").count("<tr") - 1
    claims = (DOCS / "evidence" / "claims.csv").read_text(encoding="utf-8")
    assert rows == len(claims.splitlines()) - 1


def test_readers_programs_and_keyboards_find_their_way(site):
    for name in ("README", "api/recipes", "evidence/pilot", "search"):
        page = (site / f"{name}.html").read_text(encoding="utf-8")
        assert page.count('role="heading"') == page.count('role="heading" aria-level=') == 3
        assert "<h1>" in page
        assert all("aria-label" in aside for aside in re.findall("<aside[^>]*>", page))
        assert all("tabindex" in div for div in re.findall('<div[^>]*"table-wrapper[^>]*>', page))
        assert '<th class="head"><p></p></th>' not in page


CUT_CODE = """() => [...document.querySelectorAll("pre")]
  .filter((code) => code.scrollWidth > code.clientWidth + 1)
  .map((code) => code.textContent.slice(0, 60))"""


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_opens_from_disk_and_cuts_no_code(site, browser, scheme, width):
    for name in ("README", "api", "api/runs", "results", "doctor", "evidence/pilot", "claims"):
        address = (site / f"{name}.html").as_uri()
        with quiet_page(browser, address, scheme=scheme, width=width, files=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT_CODE) == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1311, 1313, 1320, 1360, 1400, 1439, 1441])
def test_no_page_is_wider_than_a_window_with_two_sidebars(site, browser, width):
    for name in ("README", "api/recipes", "your-model"):
        address = (site / f"{name}.html").as_uri()
        with quiet_page(browser, address, width=width, files=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 700, 1024, 1280, 1360])
def test_the_explorer_is_whole_in_its_frame(site, browser, width):
    with quiet_page(browser, (site / "README.html").as_uri(), width=width, files=True) as page:
        page.frame_locator("iframe.explorer").locator(".curve .live svg").wait_for()
        [frame] = page.frames[1:]
        assert frame.evaluate("document.body.scrollHeight <= innerHeight")
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_its_search_finds_a_page_without_a_network(site, browser):
    address = (site / "search.html").as_uri()
    with quiet_page(browser, f"{address}?q=recalibrate", files=True) as page:
        # Results come one after the other.
        page.wait_for_selector("#search-results li a:text-is('The doctor')", timeout=20_000)
