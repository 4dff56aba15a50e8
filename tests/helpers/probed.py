"""Runs that were probed for the newest task's share of φ."""

from helpers.records import a_run

SHARES = (0.0, 0.2, 0.6, 1.0)


def a_probed_run(method="er", seed=0, *, start=60.0, slope=-20.0, shares=SHARES, **parts):
    """ACC is `start` without the newest task in φ, and moves by `slope` from there to the end."""
    by_share = [
        {
            "share": share,
            "old": start + slope * share,
            "newest": 80.0 + 10 * share,
            "acc": start + slope * share,
            "tasks": [start + slope * share, 80.0 + 10 * share],
        }
        for share in shares
    ]
    phi = {"acc": 50.0, "oracle_acc": 50.0, "task_acc": 50.0, "oracle_gain": 0.0}
    return a_run(method, seed, phi={**phi, "by_share": by_share}, **parts)


def a_pair():
    """Two seeds of ER, which gains, and of ER-BNT, which loses."""
    return [
        a_probed_run(method, seed, start=start + 2 * seed, slope=slope, new_share_of_phi=own)
        for method, start, slope, own in (("er", 40.0, 10.0, 0.6), ("er-bnt", 60.0, -40.0, 0.23))
        for seed in (0, 1)
    ]
