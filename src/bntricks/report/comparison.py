"""Two methods compared seed by seed: the gain with its interval, in words, and in a picture of
accuracy on old and new classes. Every word about a gain follows from its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from bntricks.errors import counted
from bntricks.intervals import sign
from bntricks.report.figures.figure import ACCURACY, SEEDS, Figure, Row, titled, tooltip
from bntricks.report.groups import RunGroup
from bntricks.report.records import by_seed
from bntricks.report.statistics import Estimate, difference, mean, sd
from bntricks.runs.metrics import metric_title

OLD, NEWEST = "old classes", "newest classes"
PARTS = {OLD: "previous", NEWEST: "last_task"}
"""Of the accuracy after the last task, by the metric that measures it."""
FINDINGS = {
    1: ("is above zero", "are above zero"),
    -1: ("is below zero", "are below zero"),
    0: (
        "includes zero, so these runs show no difference there",
        "include zero, so these runs show no difference",
    ),
}
"""By the sign of the intervals: what is said of one, and of several."""
DIGITS = 1
"""Of a gain as printed. No word about it rests on digits that nobody sees."""
BAR = 15
PART_COLOURS = ("#009E73", "#E69F00")
"""Of old and newest classes, which are no method's."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A method's gain over another, in points of a metric."""

    metric: str
    difference: Estimate

    @property
    def sign(self) -> int:
        """The sign of the interval as printed; 0 if it includes 0, or if there is none."""
        low, high = self.difference.low, self.difference.high
        return 0 if low is None or high is None else sign(low, high, DIGITS)

    def __str__(self) -> str:
        difference = self.difference
        if difference.mean is None:
            return f"{metric_title(self.metric)} not measured"
        text = f"{metric_title(self.metric)} {difference.mean:+.{DIGITS}f}"
        if difference.low is None:
            return text
        interval = f"{difference.low:.{DIGITS}f} to {difference.high:.{DIGITS}f}"
        return f"{text} (95% interval {interval})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method's gains over another."""

    method: str
    other: str
    gains: tuple[Gain, ...]

    @property
    def seeds(self) -> int:
        return min(gain.difference.n for gain in self.gains)

    @property
    def finding(self) -> str:
        """The conclusion from the intervals."""
        if self.seeds < 2:
            return "one seed has no interval, so this shows nothing yet"
        parts = []
        for side, words in FINDINGS.items():
            names = [metric_title(gain.metric) for gain in self.gains if gain.sign == side]
            several = len(names) > 1
            if names:
                of = f"the interval{'s' * several} of {' and '.join(names)}"
                parts.append(f"{of} {words[several]}")
        return "; ".join(parts)

    @property
    def evidence(self) -> str:
        """The gains and the conclusion, without the methods' names."""
        seeds = counted(self.seeds, "seed")
        return f"{', '.join(map(str, self.gains))}, paired over {seeds}; {self.finding}"

    def __str__(self) -> str:
        return f"{self.method} against {self.other}: {self.evidence}."


def compare(method: RunGroup, other: RunGroup, metrics: Sequence[str]) -> Comparison:
    """Compare the runs of one method with those of another with the same seeds."""
    sides = {m: [by_seed(each.records, m) for each in (method, other)] for m in metrics}
    gains = tuple(Gain(metric, difference(a, b)) for metric, (a, b) in sides.items())
    return Comparison(method.label, other.label, gains)


def old_and_new(groups: Sequence[RunGroup]) -> Figure:
    """Draw accuracy on old and on new classes after the last task, by method."""
    rows: list[Row] = []
    for group in groups:
        for part, metric in PARTS.items():
            values = group.values(metric)
            centre, spread = mean(values), sd(values) or 0.0
            if centre is not None:
                low, high = max(0.0, centre - spread), min(100.0, centre + spread)
                row = {"label": group.label, "part": part, "acc": centre, "low": low, "high": high}
                rows.append({**row, "seeds": len(values)})
    labels = [group.label for group in groups]
    x = partial(alt.X, title="accuracy after the last task, %", scale=ACCURACY)
    tips = {"label:N": "method", "part:N": "on"}
    base = alt.Chart(alt.InlineData(values=rows), width=560, height=2.6 * BAR * len(groups)).encode(
        y=alt.Y("label:N", title=None, sort=labels, scale=alt.Scale(paddingInner=0.3)),
        yOffset=alt.YOffset("part:N", sort=list(PARTS)),
        tooltip=tooltip({**tips, "acc:Q .1f": "accuracy, %", **SEEDS}),
    )
    colours = alt.Scale(domain=list(PARTS), range=list(PART_COLOURS))
    bar = base.mark_bar().encode(
        x=x("acc:Q"), color=alt.Color("part:N", title=None, scale=colours, sort=list(PARTS))
    )
    span = base.mark_rule(strokeWidth=1.5).encode(x=x("low:Q"), x2="high:Q")
    number = base.mark_text(align="left", dx=5).encode(
        x=x("high:Q"), text=alt.Text("acc:Q", format=".0f")
    )
    title = titled("What is known in the end", groups)
    text = (
        "Accuracy after the last task, on its own classes and on those of all tasks before it. "
        "Lines: ± standard deviation over seeds."
    )
    return Figure("old-and-new", title, text, alt.layer(bar, span, number), rows)
