"""What to learn vectors by, class after class: the table of docs/scikit-learn.md.

    python benchmarks/vectors.py                  # ten minutes of one core
    python benchmarks/vectors.py --data digits --memory 50 --seeds 1 --columns er nearest

Prints the accuracy on all classes after five tasks, the mean of the seeds, for each data set and
size of the memory: methods of `IncrementalClassifier`, and what needs no incremental learning at
all. `nearest` is the nearest neighbour among stored samples, by raw or standardised features,
whichever is better, and `refit` fits a logistic regression to them; both are given distinct
samples, equally many of each class. `all` is the default, fitted to all samples at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bntricks import IncrementalClassifier, open_stream
from bntricks.cli.console import markdown

Array = NDArray[Any]
Split = tuple[Array, Array, Array, Array]
"""Training and test samples, then their labels, as `train_test_split` returns them."""

TASKS = 5
PER_CLASS = 100
"""Of training and of test samples, at most."""
SIMPLE: dict[str, Any] = {"optimiser": "sgd", "schedule": "constant", "even_batches": False}
"""Plain gradient descent, the paper's."""
METHODS: dict[str, dict[str, Any]] = {
    "er, sgd": {"method": "er", **SIMPLE},
    "er-bnt, sgd": {"method": "er-bnt", **SIMPLE},
    "er": {"method": "er"},
    "er-bnt": {"method": "er-bnt"},
    "er-even-bnt": {"method": "er-even-bnt"},
}
"""Methods with the optimiser, schedule and batches that are the default, if not said otherwise."""
COLUMNS = (*METHODS, "nearest", "refit", "all")


def digits(seed: int) -> Split:
    """8×8 images of ten digits, as 64 features."""
    return _split(*load_digits(return_X_y=True), seed)


def fashion(seed: int) -> Split:
    """Ten kinds of clothes, 14×14 pixels, as 196 features."""
    parts = [part for task in open_stream("seq-fashion") for part in (task.train, task.test)]
    x = torch.cat([part.x for part in parts]).float()
    x = torch.nn.functional.avg_pool2d(x, 2).flatten(1)
    return _split(x.numpy(), torch.cat([part.y for part in parts]).numpy(), seed)


def synthetic(seed: int) -> Split:
    """Ten classes of two clusters each in 20 features, half of them informative."""
    x, y = make_classification(
        3000,
        n_features=20,
        n_informative=10,
        n_redundant=5,
        n_classes=10,
        class_sep=1.5,
        random_state=0,
    )
    return _split(x, y, seed)


def wine(seed: int) -> Split:
    """Three cultivars by 13 measurements: tasks of one class each."""
    return _split(*load_wine(return_X_y=True), seed)


DATA: dict[str, Callable[[int], Split]] = {
    each.__name__: each for each in (digits, fashion, synthetic, wine)
}


def _split(x: Array, y: Array, seed: int) -> Split:
    """Split at random, and keep `PER_CLASS` of each class on each side."""
    parts = train_test_split(x, y, test_size=0.4, stratify=y, random_state=seed)
    train, test = (_first(labels, PER_CLASS) for labels in parts[2:])
    return parts[0][train], parts[1][test], parts[2][train], parts[3][test]


def _first(y: Array, count: int) -> Array:
    """Return the rows of the first so many samples of each class, in their order."""
    return np.sort(np.concatenate([np.flatnonzero(y == label)[:count] for label in np.unique(y)]))


def learned(split: Split, **options: Any) -> IncrementalClassifier:
    """Learn the classes in up to five tasks."""
    x, _, y, _ = split
    model = IncrementalClassifier(**options)
    classes = np.unique(y)
    for part in np.array_split(classes, min(TASKS, len(classes))):
        rows = np.isin(y, part)
        model.partial_fit(x[rows], y[rows])
    return model


def accuracy(column: str, split: Split, memory: int, seed: int) -> float:
    """Return the accuracy of what a column is about."""
    x, x_test, y, y_test = split
    kept = _first(y, memory // len(np.unique(y)))
    if column in METHODS:
        models = [learned(split, memory=memory, random_state=seed, **METHODS[column])]
    elif column == "nearest":
        raw = KNeighborsClassifier(1)
        models = [raw, make_pipeline(StandardScaler(), KNeighborsClassifier(1))]
    elif column == "refit":
        models = [make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))]
    else:
        models = [IncrementalClassifier(random_state=seed).fit(x, y)]
    if column in ("nearest", "refit"):
        models = [model.fit(x[kept], y[kept]) for model in models]
    return 100 * max(model.score(x_test, y_test) for model in models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--memory", nargs="+", type=int, default=[50, 200, 500])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in arguments.data:
        splits = [DATA[name](seed) for seed in range(arguments.seeds)]
        for memory in arguments.memory:
            if memory >= len(splits[0][2]):
                continue  # it holds everything
            numbers = [
                mean(accuracy(column, split, memory, seed) for seed, split in enumerate(splits))
                for column in arguments.columns
            ]
            rows.append([name, str(memory), *(f"{number:.1f}" for number in numbers)])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown(["data", "memory", *arguments.columns], rows))


if __name__ == "__main__":
    main()
