"""Claims side by side: our difference at each scale that has a verdict, with its interval, above
the paper's own difference and interval."""

from collections.abc import Sequence
from functools import partial

import altair as alt

from bntricks.report.figures.claims import VERDICTS
from bntricks.report.figures.figure import LETTER, WIDTH, Figure, Row
from results_page.evidence import Finding, is_judged

PAPER = "the paper"
ROW = 15


def forest(name: str, title: str, text: str, claims: dict[str, Finding]) -> Figure | None:
    """The figure of these claims by their labels; None if no run has judged any."""
    rows = [row for label, finding in claims.items() for row in _rows(label, finding)]
    if not rows:
        return None
    looks = {shown: look for shown, look in VERDICTS.items() if shown in {r["shown"] for r in rows}}
    colours, shapes = (
        alt.Scale(domain=list(looks), range=list(values))
        for values in zip(*looks.values(), strict=True)
    )
    sources = list(dict.fromkeys(row["source"] for row in sorted(rows, key=_order)))
    longest = LETTER * max(len(row["label"]) for row in rows)
    several = len(rows) > len({row["label"] for row in rows})
    offset = {"yOffset": alt.YOffset("source:N", sort=sources)} if several else {}
    x = partial(alt.X, title="difference in points", axis=alt.Axis(tickCount=8))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=0, minExtent=longest)),
        color=alt.Color("shown:N", title=None, scale=colours),
        **offset,
    )
    zero = alt.Chart().mark_rule(opacity=0.5).encode(x=alt.datum(0))
    span = base.mark_rule(strokeWidth=2).encode(x=x("low:Q"), x2="high:Q")
    shape = alt.Shape("shown:N", title=None, scale=shapes)
    point = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x("difference:Q"), shape=shape
    )
    height = ROW * (len(sources) if several else 1.3) * len({row["label"] for row in rows})
    chart = alt.layer(zero, span, point).properties(width=WIDTH * 0.45, height=height)
    return Figure(name, title, text, chart, rows)


def _rows(label: str, finding: Finding) -> Sequence[Row]:
    judged = [(scale, each) for scale, each in finding.judgements if is_judged(each)]
    rows: list[Row] = [
        {
            "label": label,
            "source": scale,
            "shown": each.verdict,
            "difference": each.ours,
            "low": each.low,
            "high": each.high,
        }
        for scale, each in judged
    ]
    if judged and (paper := judged[0][1].paper).mean is not None:
        row = {"label": label, "source": PAPER, "shown": PAPER, "difference": paper.mean}
        rows.append({**row, "low": paper.low, "high": paper.high})
    return rows


def _order(row: Row) -> int:
    return ("medium", "lite", PAPER).index(row["source"])
