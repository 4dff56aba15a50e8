"""A small study, what must be the same however it was run, and waiting for something."""

import json
import time

STUDY = ["study", "pilot", "--scale", "smoke", "--stream", "seq-digits", "--seeds", "2", "--json"]
SAME = ("digest", "accuracy", "task_il_accuracy", "steps")


def results(folder):
    found = [json.loads(path.read_text()) for path in folder.glob("*/record.json")]
    return {(r["method"], r["seed"]): {key: r[key] for key in SAME} for r in found}


def tables(out):
    found = json.loads(out)["tables"]
    for row in (row for table in found for row in table["rows"]):
        row.pop("Images/s", None)  # of the machine, not of the run
    return found


def until(true, what, seconds=200):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
