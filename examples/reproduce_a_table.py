"""Table 1 of the paper from Python: a study becomes runs, and runs become a report.

As it stands it runs in seconds, on embedded digits, and proves only that everything works. With
`--scale lite --data DIR` it trains on the CIFAR-10 in DIR, for hours; --out keeps the runs, so that
it can be interrupted.
"""

import argparse
from pathlib import Path

from bntricks.paper import load_study
from bntricks.report import write_report
from bntricks.report.results import results_table, verdict_table
from bntricks.report.tables import to_markdown
from bntricks.report.verdicts import verdicts
from bntricks.sweeps.local import Failure, Shared, sweep
from bntricks.sweeps.plan import plan


def told(event):
    """A line for each run that is done."""
    if event["event"] == "finished":
        record = event["record"]
        print(f"{record['method']}, seed {record['seed']}: ACC {record['acc']:.1f}", flush=True)


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--scale", choices=("smoke", "lite", "paper"), default="smoke")
    asked.add_argument(
        "--data", type=Path, help="a folder with CIFAR-10 [default: embedded digits]"
    )
    asked.add_argument("--out", type=Path, default=Path("table-1"))
    asked = asked.parse_args()

    study = load_study("pilot")
    streams = () if asked.data else ("seq-digits",)  # the study's own, or one that needs no data
    runs = plan(study, asked.scale, streams=streams)
    records = sweep(runs, Shared(data=asked.data, out=asked.out), sink=told)
    failed = [each for each in records if isinstance(each, Failure)]
    if failed:
        lines = (f"{f.config.method}, seed {f.config.seed}: {f.reason}" for f in failed)
        raise SystemExit("\n".join(lines))

    print(to_markdown(results_table(records, study, asked.scale)))
    if asked.data:  # claims are about the paper's streams
        print(to_markdown(verdict_table(verdicts(study, asked.scale, records), records)))
    page = write_report(records, asked.out, study, asked.scale, title="Table 1")
    print(f"a page to look at: {page}")


if __name__ == "__main__":  # sweep starts processes, which import this file
    main()
