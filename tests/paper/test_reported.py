"""The paper's numbers: all there, and as printed."""

from collections import Counter, defaultdict

import pytest

from bntricks.methods import entries
from bntricks.paper import load_reported, load_study
from bntricks.streams.registry import STREAMS


def test_every_cell_of_the_tables_is_there():
    counts = Counter((e.table, e.stream, e.memory) for e in load_reported().entries())
    assert counts == {
        (1, "seq-cifar10", 500): 4,
        (2, "seq-cifar10", 500): 10,
        (3, "seq-cifar10", 500): 13,
        (3, "seq-cifar100", 1000): 13,
        (3, "seq-tiny-imagenet", 2000): 11,
        (4, "seq-cifar100", 200): 6,
        (4, "seq-cifar100", 500): 6,
        (4, "seq-cifar100", 5000): 6,
    }


@pytest.mark.parametrize(
    ("method", "stream", "memory", "acc", "bwt"),
    [
        ("er-balance-batch", "seq-cifar10", None, (56.40, 0.80), (-48.77, 1.16)),
        ("er-cur+prev", "seq-cifar10", None, (62.10, 2.34), (11.32, 6.42)),
        ("er-bnt-no-simulator", "seq-cifar10", 500, (66.13, 2.30), (41.76, 2.04)),
        ("icarl-concat", "seq-cifar10", None, (62.52, 0.73), (-39.97, 1.05)),
        ("lwf", "seq-tiny-imagenet", None, (8.36, 0.14), (-77.17, 1.46)),
        ("gss", "seq-cifar100", None, (14.96, 0.19), (-80.03, 0.40)),
        ("der++-bnt", "seq-tiny-imagenet", 2000, (32.23, 0.66), (-29.05, 1.04)),
        ("icarl-bnt", "seq-cifar100", 1000, (42.18, 0.47), (-21.41, 0.53)),
        ("er", "seq-cifar100", 200, (13.94, 0.58), (-81.54, 0.60)),
        ("der++-bnt", "seq-cifar100", 500, (40.43, 0.83), (-38.15, 2.12)),
        ("icarl", "seq-cifar100", 5000, (40.81, 0.49), (-17.86, 0.52)),
    ],
)
def test_numbers_are_as_printed(method, stream, memory, acc, bwt):
    entry = load_reported().find(method, stream, memory)
    assert (entry.acc, entry.bwt) == (acc, bwt)


def test_what_the_paper_does_not_report_is_not_found():
    assert load_reported().find("gem", "seq-tiny-imagenet") is None
    assert load_reported().find("er", "seq-cifar10", 200) is None
    assert load_reported().find("er", "seq-digits") is None
    assert load_reported().find("joint", "seq-cifar10").bwt is None


def test_tables_that_repeat_a_result_repeat_its_numbers():
    printed = defaultdict(set)
    for entry in load_reported().entries():
        printed[entry.method, entry.stream, entry.memory].add((entry.acc, entry.bwt))
    assert len(printed) < len(load_reported().entries())
    assert all(len(numbers) == 1 for numbers in printed.values())
    same = [
        load_reported().find(m, "seq-cifar10") for m in ("er-cur+buf", "er-bnt-imbalance-tracker")
    ]
    assert same[0].acc == same[1].acc


def test_reported_methods_and_memories_are_those_of_the_code():
    assert {entry.method for entry in load_reported().entries()} <= entries().keys()
    assert load_reported().memory == {
        name: STREAMS[name].memory for name in STREAMS if "cifar" in name or "tiny" in name
    }


@pytest.mark.parametrize(("study", "table"), [("pilot", 1), ("ablation", 2), ("main", 3)])
def test_a_study_runs_the_rows_of_its_table(study, table):
    rows = {e.method for e in load_reported().entries() if e.table == table}
    assert set(load_study(study).methods) == rows


def test_the_buffers_study_runs_the_columns_of_table_4():
    study = load_study("buffers")
    memories = [study.values("paper", "seq-cifar100", v.label)["memory"] for v in study.variants]
    assert memories == [200, 500, 1000, 5000]
    for memory in memories:
        for method in study.methods:
            assert load_reported().find(method, "seq-cifar100", memory) is not None
