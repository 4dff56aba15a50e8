"""Table 1 of the paper from Python: a study becomes runs, and the runs become a report.

As it stands, it takes seconds on embedded digits and only proves that everything works. With
`--scale lite --data DIR` it trains on the CIFAR-10 in DIR, for hours. The runs are kept in --out,
so it can be interrupted and called again.
"""

import argparse
from pathlib import Path

from bntricks import Failure, Request, load_study, plan, sweep, write_report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "lite", "medium", "paper"), default="smoke")
    parser.add_argument(
        "--data", type=Path, help="a folder with CIFAR-10 [default: embedded digits]"
    )
    parser.add_argument("--out", type=Path, default=Path("table-1"))
    options = parser.parse_args()

    study = load_study("pilot")
    streams = () if options.data else ("seq-digits",)  # the study's own, or one that needs no data
    configs = plan(study, options.scale, streams=streams)

    def print_finished(event):
        """A line for each run that is done."""
        if event["event"] == "finished":
            config = configs[event["run"]]
            print(f"{config.method}, seed {config.seed}: ACC {event['acc']:.1f}", flush=True)

    records = sweep(configs, Request(data=options.data, out=options.out), sink=print_finished)
    failures = [each for each in records if isinstance(each, Failure)]
    if failures:
        lines = (f"{f.config.method}, seed {f.config.seed}: {f.error}" for f in failures)
        raise SystemExit("\n".join(lines))

    page = write_report(records, options.out, study, options.scale, title="Table 1")
    print((options.out / "results.md").read_text(encoding="utf-8"))
    if options.data:  # the claims are about the paper's streams
        print((options.out / "verdicts.md").read_text(encoding="utf-8"))
    print(f"page written to {page}")


if __name__ == "__main__":  # sweep starts processes, which import this file
    main()
