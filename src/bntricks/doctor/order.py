"""Outputs in a wrong order: a network that answers no better than guessing, though its answers
tell the classes apart. Labels then belong to other outputs than the user believes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

DEVIATIONS = 2.0
"""Accuracy within so many standard deviations of guessing is no better than guessing, and another
order fits if it is further than twice what the best of all orders reaches by luck."""
MOST_CLASSES = 2000
"""Matching takes a table of all pairs."""


@dataclass(frozen=True, slots=True)
class Order:
    """Another order of classes, which fits the answers."""

    labels: tuple[int, ...]
    """The label that each output fits; outputs that fit none keep what is left, in order."""
    accuracy: float
    fitting_accuracy: float
    """In per cent, every class counting the same."""


def fitting_order(pairs_by_group: Iterable[Counter[tuple[int, int]]]) -> Order | None:
    """The order that fits these pairs of label and answer, if theirs does not and another does."""
    from scipy.optimize import linear_sum_assignment

    pairs: Counter[tuple[int, int]] = sum(pairs_by_group, Counter())
    labels = sorted({label for label, _ in pairs})
    outputs = 1 + max(max(pair) for pair in pairs)
    if not 2 <= len(labels) <= MOST_CLASSES or outputs > MOST_CLASSES:
        return None
    counts = np.zeros((outputs, outputs))
    for (label, answer), count in pairs.items():
        if answer >= 0:
            counts[label, answer] += count
    samples = sum(pairs.values())
    totals = np.zeros(outputs)
    for (label, _), count in pairs.items():
        totals[label] += count
    rates = counts / np.maximum(totals, 1)[:, None]
    chance, per_class = 1 / len(labels), samples / len(labels)
    spread = sqrt(chance * (1 - chance))
    accuracy = float(rates.diagonal().sum()) / len(labels)
    _, answers = linear_sum_assignment(rates, maximize=True)
    fitting = float(rates[np.arange(outputs), answers].sum()) / len(labels)
    luck = spread * sqrt(2 * log(len(labels)) / per_class)
    if accuracy > chance + DEVIATIONS * spread / sqrt(samples) or fitting < chance + 2 * luck:
        return None
    return Order(tuple(np.argsort(answers).tolist()), 100 * accuracy, 100 * fitting)
