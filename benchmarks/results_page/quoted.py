"""The paragraph of README.md about what BN Tricks gains, and about other layers."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from bntricks.report.statistics import mean
from bntricks.runs.record import Record
from results_page.evidence import findings, gather
from results_page.headlines import METRICS, PAIRS, of_pair, outcome
from results_page.layers import layers_in_short

SCALE, WIDTH = "medium", 106
PAIR = ("er-bnt", "er")


def quoted(records: Sequence[Record]) -> str:
    """What both reach, and the gain with its interval, over the seeds that both have."""
    evidence = gather(records)
    own = findings(evidence)
    ablation = next(e for e in evidence if (e.study.name, e.scale) == ("ablation", SCALE))
    by_seed = [
        {run.seed: run for each in ablation.groups if each.method == method for run in each.records}
        for method in PAIR
    ]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    reached = [
        [f"{mean([runs[seed].metrics[metric] for seed in seeds]):.1f}" for metric in METRICS]
        for runs in by_seed
    ]
    gains = {
        j.claim.metric: j
        for j in ablation.judged
        if j.claim.kind == "greater" and j.claim.b and (j.claim.a.method, j.claim.b.method) == PAIR
    }
    acc, bwt = (gains[metric] for metric in METRICS)
    any_run = by_seed[0][seeds[0]]
    others = [
        f"{method} over {baseline}, {outcome(of_pair(method, baseline, own))}"
        for method, baseline in PAIRS.items()
        if method.lower() != PAIR[0]
    ]
    text = (
        f"On all of CIFAR-10, with a network small enough for a CPU, "
        f"{any_run.steps // len(any_run.accuracy):,} steps a task and {len(seeds)} seeds, ER-BNT "
        f"reaches ACC {reached[0][0]} and BWT {reached[0][1]}, ER {reached[1][0]} and "
        f"{reached[1][1]}: a gain of {acc.ours:.1f} points (95% interval {acc.low:.1f} to "
        f"{acc.high:.1f}) and of {bwt.ours:.1f} ({bwt.low:.1f} to {bwt.high:.1f}), where the paper "
        f"has {acc.paper:.1f} and {bwt.paper:.1f}. The other pairs so far: {'; '.join(others)}. "
        "Not every claim of the paper holds at that size: [results](docs/results.md). Against "
        f"other normalisations, in ACC: {layers_in_short(own)}"
    )
    return fill(text, WIDTH)
