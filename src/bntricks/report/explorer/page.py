"""The explorer in a page: a slider over the newest task's share of φ, charts that follow it, and,
without scripts, a picture and the numbers. Measured points are marked, others interpolated."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from bntricks.files import commit, write_errors
from bntricks.report.comparison import NEWEST, OLD, PART_COLOURS
from bntricks.report.explorer.scenes import MethodLine, Scene, plain
from bntricks.report.figures.figure import VEGA_LITE, WIDTH, tooltip
from bntricks.report.page.html import Section, data_script, details, page_html, table_html
from bntricks.report.tables.table import Cell, Table, number

Rows = dict[str, list[dict[str, Any]]]

TITLE = "Same weights, other statistics"
SHARE = "Share of the newest task in the BatchNorm statistics"
TEXT = (
    "These networks are trained; nothing changes here but the statistics that BatchNorm "
    "normalises with. Dots were measured; between two dots values are interpolated."
)
BARS, CURVE, TASKS = "bars", "curve", "tasks"
CAPTIONS = {
    BARS: "With these statistics the same weights recognise …",
    CURVE: "Accuracy over all classes, by that share",
    TASKS: "Accuracy by task, with these statistics",
}
HEIGHT = 230
PERCENT = list(range(0, 101, 20))
FULL = alt.Scale(domain=[0, 108])
"""With room for a number beside a whole bar."""
TIP = {"acc:Q .1f": "accuracy, %"}
BALANCED = 0.2
INK = "currentColor"
STILL: dict[str, Any] = {
    "background": None,
    "font": "Helvetica, Arial, sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    | dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), INK)
    | {"gridOpacity": 0.15},
    "view": {"stroke": None},
    "legend": {"orient": "bottom", "labelFontSize": 12, "labelLimit": 0, "labelColor": INK},
    "text": {"color": INK},
    "rule": {"color": INK},
}
"""How the picture for readers without scripts looks."""


def write_explorer(scenes: Sequence[Scene], path: Path, command: str | None = None) -> Path:
    """Write the explorer as a page of its own."""
    with write_errors(path):
        page = page_html(TITLE, sentence(scenes[0].pair), [section(scenes)], command)
        commit({path: page.encode()})
    return path


def sentence(pair: tuple[MethodLine, MethodLine]) -> str:
    """Say in a sentence what the share does to both methods."""
    first, last = ([line.points[end] for line in pair] for end in (0, -1))
    moves = [
        f"{line.name} goes from {low.acc:.0f}% to {high.acc:.0f}%"
        for line, low, high in zip(pair, first, last, strict=True)
    ]
    return (
        f"As the newest task's share goes from {first[0].share:.0%} to {last[0].share:.0%}, "
        f"accuracy over all classes of {', and that of '.join(dict.fromkeys(moves))}, with the "
        "same weights."
    )


def section(scenes: Sequence[Scene], title: str = "Move the statistics") -> Section:
    """Render the explorer as a section of a page."""
    pair = scenes[0].pair
    charts = {BARS: bars(pair), CURVE: curve(pair), TASKS: tasks(pair)}
    start = start_of(pair)
    rows = rows_of(pair, start)
    panes = "".join(_pane(name, chart, rows) for name, chart in charts.items())
    data = {
        "scenes": [plain(scene) for scene in scenes],
        "start": start,
        "parts": [OLD, NEWEST],
        "names": [line.name for line in pair],
    }
    commands = "\n".join(dict.fromkeys(line.command for line in pair))
    content = (
        f'<div class="explorer" data-scenes="explorer-scenes">'
        f'<p>{escape(TEXT)}</p><div class="choices" hidden>'
        "<label>Stream <select class=scene></select></label>"
        "<label>Method <select class=line></select></label>"
        "<label>and <select class=line></select></label></div>"
        f'<div class="slide" hidden><label for="share">{SHARE}: <output for="share"></output>'
        '</label><input id="share" type="range" min="0" max="100" step="1">'
        '<p class="jumps"></p></div>'
        f'<p class="said">{escape(_said(pair, start))}</p><div class="panes">{panes}</div>'
        f"{details('Measured numbers', table_html(numbers(scenes[0]), 'explorer-numbers'))}"
        "<p class=commands-lead>Runs like these, and this page of your own:</p><pre class=commands>"
        f"{escape(commands)}\nbnt explore runs</pre></div>{data_script('explorer-scenes', data)}"
    )
    return Section("explorer", title, content, script="explorer.js")


def numbers(scene: Scene) -> Table:
    """Tabulate every measured point."""
    rows = [
        (
            Cell(line.name),
            Cell(f"{point.share:.0%}", point.share),
            *(number(value, 1) for value in (point.old, point.newest, point.acc)),
            number(line.seeds, 0),
        )
        for line in scene.lines
        for point in line.points
    ]
    columns = ("Method", "Share", OLD.capitalize(), NEWEST.capitalize(), "All classes", "Seeds")
    return Table(f"Accuracy in percent, {scene.title}", columns, tuple(rows))


def start_of(pair: tuple[MethodLine, MethodLine]) -> float:
    """Return the share, measured for both methods, that is nearest to the second one's own φ or to
    balance."""
    first, second = ({point.share for point in line.points} for line in pair)
    own = BALANCED if pair[1].own is None else pair[1].own
    return min(first & second or second, key=lambda share: abs(share - own))


def _said(pair: tuple[MethodLine, MethodLine], share: float) -> str:
    """Describe the state of the charts in words."""
    parts = [
        f"{line.name} recognises {at.old:.0f}% of the old classes and {at.newest:.0f}% of the "
        "newest"
        for line, at in ((line, line.nearest(share)) for line in dict.fromkeys(pair))
    ]
    return f"At {share:.0%} (measured): {'; '.join(parts)}."


def rows_of(pair: tuple[MethodLine, MethodLine], share: float) -> Rows:
    """Return the data of the charts at a measured share; `explorer.js` computes those of any."""
    here = [(line, line.nearest(share)) for line in pair]
    return {
        "now": [
            {"method": line.name, "part": part, "acc": value}
            for line, at in here
            for part, value in ((OLD, at.old), (NEWEST, at.newest))
        ],
        "curve": [
            {"method": line.name, "share": point.share, "acc": point.acc}
            for line in pair
            for point in line.points
        ],
        "here": [{"method": line.name, "share": at.share, "acc": at.acc} for line, at in here],
        "tasks": [
            {"method": line.name, "task": index, "acc": acc}
            for line, at in here
            for index, acc in enumerate(at.tasks or (), start=1)
        ],
    }


def bars(pair: tuple[MethodLine, MethodLine]) -> Any:
    """Draw accuracy on old and newest classes, by method."""
    base = alt.Chart(alt.NamedData("now")).encode(
        y=alt.Y("method:N", title=None, sort=None, scale=alt.Scale(paddingInner=0.3)),
        yOffset=alt.YOffset("part:N", sort=[OLD, NEWEST]),
        x=alt.X("acc:Q", title="% of test images", scale=FULL, axis=alt.Axis(values=PERCENT)),
        tooltip=["method:N", *tooltip({"part:N": "on", **TIP})],
    )
    colours = alt.Scale(domain=[OLD, NEWEST], range=list(PART_COLOURS))
    bar = base.mark_bar().encode(color=alt.Color("part:N", title=None, scale=colours))
    text = base.mark_text(align="left", dx=4, fontWeight="bold", fontSize=13)
    words = text.encode(text=alt.Text("acc:Q", format=".0f"))
    return alt.layer(bar, words).properties(height=HEIGHT)


def curve(pair: tuple[MethodLine, MethodLine]) -> Any:
    """Draw ACC by the share: the measured points, and the slider's place."""
    x = alt.X("share:Q", title="newest task's share", axis=alt.Axis(format="%", tickCount=6))
    y = alt.Y("acc:Q", title="accuracy, %", scale=alt.Scale(zero=False, nice=True, padding=8))
    base = alt.Chart(alt.NamedData("curve")).encode(x=x, y=y, color=_by_method(pair))
    dashes = _by_method(pair, alt.StrokeDash, "dash")
    line = base.mark_line(strokeWidth=2.5).encode(strokeDash=dashes)
    dot = base.mark_point(filled=True, size=70, opacity=1).encode(
        tooltip=["method:N", *tooltip({"share:Q .0%": "share", **TIP})]
    )
    here = alt.Chart(alt.NamedData("here")).encode(x=x)
    rule = here.mark_rule(strokeDash=[5, 4], strokeWidth=1.5)
    ring = here.mark_point(size=220, strokeWidth=2.5).encode(y=y, color=_by_method(pair))
    return alt.layer(rule, line, dot, ring).properties(height=HEIGHT)


def tasks(pair: tuple[MethodLine, MethodLine]) -> Any:
    """Draw accuracy on each task."""
    base = alt.Chart(alt.NamedData("tasks")).encode(
        x=alt.X("task:O", title="task, in the order learned", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("method:N", sort=None),
        y=alt.Y("acc:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100])),
        color=_by_method(pair),
        tooltip=["method:N", "task:O", *tooltip(TIP)],
    )
    return base.mark_bar().properties(height=160)


def _by_method(
    pair: tuple[MethodLine, MethodLine], channel: Any = alt.Color, part: str = "colour"
) -> Any:
    lines = dict.fromkeys(pair)
    scale = alt.Scale(
        domain=[line.name for line in lines], range=[getattr(line, part) for line in lines]
    )
    return channel("method:N", title=None, scale=scale)


def _pane(name: str, chart: Any, rows: Rows) -> str:
    """Render a chart as a picture, and its spec for the script that replaces it."""
    empty = name == TASKS and not rows["tasks"]
    spec = {**chart.to_dict(), "description": CAPTIONS[name], "datasets": rows}
    del spec["config"], spec["$schema"]
    still = json.dumps({**spec, "width": WIDTH * 0.6})
    drawn = vl_convert.vegalite_to_svg(
        still, vl_version=VEGA_LITE, config=STILL, allowed_base_urls=[]
    )
    return (
        f'<figure class="{name}"{" hidden" * empty}>'
        f"<figcaption><h3>{escape(CAPTIONS[name])}</h3></figcaption>"
        f'<div class="live" data-spec="explorer-{name}">{drawn}</div>'
        f"{data_script(f'explorer-{name}', spec)}</figure>"
    )
