"""The figure of a study's claims: our differences with their intervals, beside the paper's. Texts
are above their marks, where no margin can cut them. Each metric has a panel with its own axis."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from bntricks.errors import counted
from bntricks.paper import STREAMS
from bntricks.report.figures.figure import SEEDS, WIDTH, Figure, Row, tooltip
from bntricks.report.tables.results import compared
from bntricks.report.verdicts import Judgement
from bntricks.runs.metrics import metric_title

VERDICTS = {
    "holds": ("#0072B2", "circle"),
    "suggested": ("#56B4E9", "triangle-up"),
    "undecided": ("#888888", "square"),
    "no difference": ("#888888", "diamond"),
    "doubtful": ("#E69F00", "triangle-down"),
    "does not hold": ("#D55E00", "cross"),
    "not judged": ("#8A8A8A", "triangle-right"),
    "the paper": ("#CC79A7", "diamond"),
}
LINE_LENGTH = 48
"""Letters in a line above the marks, few enough for a phone."""
MOST_SHOWN = 60
"""Claims; a figure of more is folded."""
LINE_OF_TEXT, MARKS = 13, 26
"""Heights in points: of a line of text, and of the marks below it."""


def verdict_chart(
    judgements: Sequence[Judgement], remark: str = "", title: str = "Claims, ours and the paper's"
) -> Figure | None:
    """Draw the claims' differences; None if none has an interval. The remark, such as "(cut-down
    data)", is added to every axis."""
    panels: dict[str, list[Row]] = {}
    for axis, row in _rows(judgements):
        panels.setdefault(axis, []).append(row)
    rows = [row for own in panels.values() for row in own]
    if not rows:
        return None
    looks = {name: look for name, look in VERDICTS.items() if name in {r["shown"] for r in rows}}
    drawn = [_panel(own, f"{axis} {remark}".rstrip(), looks) for axis, own in panels.items()]
    text = "Differences A minus B with 95% intervals over seeds"
    text += ", and the paper's own differences." if "the paper" in looks else "."
    without = sum(judged.ours is not None and judged.low is None for judged in judgements)
    if without:
        text += f" {counted(without, 'claim')} of single seeds, without intervals: see the table."
    whole = alt.concat(*drawn, columns=1)
    claims = {row["claim"] for row in rows}
    folded = len(claims) > MOST_SHOWN
    return Figure("differences", title, text, whole, rows, beside=25.0, folded=folded)


def _panel(rows: list[Row], title: str, looks: Mapping[str, tuple[str, str]]) -> Any:
    """Draw the claims about one metric."""
    colours, shapes = (
        alt.Scale(domain=list(looks), range=list(values))
        for values in zip(*looks.values(), strict=True)
    )
    labels = {row["claim"]: _lines(row["claim"]) for row in rows}
    text = LINE_OF_TEXT * max(map(len, labels.values()))
    axis = alt.Axis(titleAnchor="end", orient="bottom", labelOverlap=True, tickCount=8)
    x = partial(alt.X, title=title, axis=axis)
    y = alt.Y("claim:N", title=None, sort=None, axis=None)
    chart = alt.Chart(alt.InlineData(values=rows)).encode(
        y=y, color=alt.Color("shown:N", title=None, scale=colours)
    )
    below = text / 2
    span = chart.mark_rule(strokeWidth=2, yOffset=below).encode(x=x("low:Q"), x2="high:Q")
    words = {"text:N": "claim", "where:N": "where", "shown:N": "verdict"}
    numbers = {"difference:Q .2f": "difference", "low:Q .2f": "from", "high:Q .2f": "to"}
    point = chart.mark_point(filled=True, size=60, opacity=1, yOffset=below).encode(
        x=x("difference:Q"),
        shape=alt.Shape("shown:N", title=None, scale=shapes),
        tooltip=tooltip({**words, **numbers, **SEEDS}),
    )
    names = alt.Chart(
        alt.InlineData(values=[{"claim": claim, "lines": lines} for claim, lines in labels.items()])
    ).encode(y=y)
    name = names.mark_text(
        align="left", baseline="middle", lineHeight=LINE_OF_TEXT, fontSize=11, yOffset=-MARKS / 2
    ).encode(x=alt.value(0), text="lines:N")
    # Zero is marked beside every difference, and not where it would cross the words above it.
    zero = names.mark_tick(size=MARKS - 8, thickness=1, opacity=0.5, yOffset=below)
    whole = alt.layer(zero.encode(x=alt.datum(0)), span, point, name)
    return whole.properties(width=WIDTH, height=(text + MARKS) * len(labels))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, LINE_LENGTH, break_on_hyphens=False)


def _rows(judgements: Sequence[Judgement]) -> Iterator[tuple[str, Row]]:
    """Return our difference in each claim with an interval, the paper's, and the axis title."""
    for number, judged in enumerate(judgements, start=1):
        if judged.low is None:
            continue
        claim = judged.claim
        # The stream is named as the text names it.
        named = [title for title in STREAMS.values() if title in claim.text]
        stream = f", {max(named, key=len)}" if named else ""
        row = {
            "claim": f"{number}. {compared(claim)}, {metric_title(judged.metric)}{stream}",
            "text": claim.text,
            "where": claim.where,
            "shown": judged.verdict,
            "difference": judged.ours,
            "low": judged.low,
            "high": judged.high,
            "seeds": judged.seeds,
        }
        quantity = "slope" if claim.kind == "trend" else "difference"
        axis = f"{metric_title(claim.metric)}: {quantity} in points"
        yield axis, row
        if judged.paper.mean is not None:
            paper = {"shown": "the paper", "difference": judged.paper.mean}
            yield axis, row | paper | dict.fromkeys(("low", "high", "seeds"))
