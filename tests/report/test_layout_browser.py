"""How pages look, measured in a real browser from the boxes of their elements: nothing is cut off,
nothing overlaps, and nothing is wider than its place."""

import pytest
import torch
from torch import nn

from bntricks import diagnose
from bntricks.paper import load_study
from bntricks.report.build import build
from bntricks.report.page.page import report_html
from helpers.doctor_data import groups
from helpers.studies import confused, study_runs

pytestmark = [pytest.mark.slow, pytest.mark.browser]

STUDIES = {  # with what made their pages too wide or too full before
    "ablation": {},  # ten methods with long names
    "control": {},  # variants, whose names are longer still
    "buffers": {"methods": ("er", "er-bnt")},  # sizes of the memory
    "long": {"streams": ["seq-cifar100-20"], "methods": ("er", "er-bnt")},  # twenty tasks
    "norms-online": {"streams": ["seq-cifar10"]},  # many names, and long ones
}

UNFOLD = """() => {
  for (const folded of document.querySelectorAll("details:has(.chart)")) folded.open = true;
}"""

CUT_OR_OVERLAPPING = """() => {
  const problems = [];
  const name = (text) => text.textContent.slice(0, 60);
  for (const chart of document.querySelectorAll(".chart")) {
    if (chart.scrollWidth > chart.clientWidth + 1) problems.push(`${chart.id} is too wide`);
    const frame = chart.querySelector("svg").getBoundingClientRect();
    const texts = [...chart.querySelectorAll("svg text")]
      .filter((text) => text.textContent.trim() && text.getAttribute("opacity") !== "0")
      .map((text) => [name(text), text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    texts.forEach(([word, a], index) => {
      if (word.includes("…")) problems.push(`${chart.id}: ${word} is shortened`);
      if (a.left < frame.left - 1 || a.right > frame.right + 1 ||
          a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        problems.push(`${chart.id}: ${word} is cut`);
      for (const [other, b] of texts.slice(index + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 4) problems.push(`${chart.id}: ${word} covers ${other}`);
      }
    });
  }
  return problems;
}"""

STRUCK_THROUGH = """() => [...document.querySelectorAll(".chart")].flatMap((chart) => {
  const lines = [...chart.querySelectorAll(".role-axis-grid line")];
  const right = Math.max(...lines.map((line) => line.getBoundingClientRect().right));
  return [...chart.querySelectorAll(".ends_marks text")]
    .filter((name) => name.getBoundingClientRect().left < right)
    .map((name) => `${chart.id}: ${name.textContent}`);
})"""

NAMELESS = """() => [...document.querySelectorAll("section fieldset")].flatMap((fieldset) =>
  [...fieldset.closest("section").querySelectorAll(".chart")].flatMap((chart) => {
    const plain = (text) => text.replace(/\\s/g, "");  // names may be in several lines
    const names = [...chart.querySelectorAll("svg text")].map((text) => plain(text.textContent));
    return [...fieldset.querySelectorAll("input")].map((box) => box.value)
      .filter((name) => !names.includes(plain(name))).map((name) => `${chart.id}: ${name}`);
  }))"""

TOO_WIDE = """() => [...document.querySelectorAll(
    "h1, h2, h3, nav, main p, .marks li, pre, fieldset, .scroll:has(#verdict-table)")]
  .filter((part) => part.offsetParent && !part.parentElement.closest(".scroll"))
  .filter((part) => part.getBoundingClientRect().right > innerWidth
    || part.scrollWidth > part.clientWidth + 1)
  .map((part) => part.textContent.slice(0, 60))"""


@pytest.fixture(scope="module", params=[*STUDIES, "diagnosis"])
def address(request, tmp_path_factory):
    page = tmp_path_factory.mktemp("layout") / "report.html"
    if request.param == "diagnosis":
        return diagnosed(page)
    parts = dict(STUDIES[request.param])
    methods = parts.pop("methods", None)
    trained = study_runs(request.param, **parts)
    chosen = [confused(run) for run in trained if methods is None or run.method in methods]
    report = build(chosen, load_study(request.param), "lite", command="bnt study " + "x " * 80)
    page.write_text(report_html(report), encoding="utf-8")
    return page.as_uri()


def diagnosed(page):
    """A model's page, with names as long as those of clothes."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
    data = groups(batches=3)
    named = {"T-shirt-top, Trouser": data["old"], "Dress, Pullover": data["new"]}
    return diagnose(net, named).write_page(page).as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_covered_or_wider_than_its_place(browser, address, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(address, timeout=120_000)
    page.wait_for_selector("html.ready", state="attached", timeout=60_000)
    page.evaluate(UNFOLD)
    drawn = "[...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('svg'))"
    page.wait_for_function(drawn, timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OR_OVERLAPPING) == []
    assert page.evaluate(STRUCK_THROUGH) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TOO_WIDE) == []
    context.close()
