"""The documentation as a site: whole, and of use without a server or a network."""

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
    described = (site / "api.html").read_text(encoding="utf-8")
    for module, names in bntricks._NAMES.items():
        for name in names.split():
            assert f'id="bntricks.{module}.{name}"' in described


def test_the_gallery_shows_every_figure():
    shown = links((DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert {f"figures/{figure.name}" for figure in DOCS.glob("figures/*.svg")} <= set(shown)


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_opens_from_disk(site, browser, scheme, width):
    for name in ("README", "api", "results"):
        address = (site / f"{name}.html").as_uri()
        with quiet_page(browser, address, scheme=scheme, width=width, files=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_its_search_finds_a_page_without_a_network(site, browser):
    address = (site / "search.html").as_uri()
    with quiet_page(browser, f"{address}?q=recalibrate", files=True) as page:
        # Results come one after the other.
        page.wait_for_selector("#search-results li a:text-is('The doctor')", timeout=20_000)
