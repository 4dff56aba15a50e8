"""What each correction of the head fits when a task is over: why it helps, or does not.

    python benchmarks/head_corrections.py --data DIR

Prints, for every task but the first: γ of WA, by which the newest classes' rows of the head are
multiplied; a and b of BiC, for the newest classes' logits; and the smallest and the largest factor
by which IL2M changes the probability of an old class where a new one wins.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bntricks.cli.console import markdown
from bntricks.paper import load_study
from bntricks.runs.config import Config
from bntricks.runs.train import train
from bntricks.streams import Stream, open_stream
from bntricks.training.learner import Learner

STREAM = "seq-cifar10"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with CIFAR-10")
    parser.add_argument("--method", default="er")
    parser.add_argument("--epochs", type=int, help="default: those of the lite scale")
    arguments = parser.parse_args()
    values = load_study("bias").values("lite", STREAM) | {"method": arguments.method}
    values |= {} if arguments.epochs is None else {"epochs": arguments.epochs}
    config = Config(**values)
    stream = open_stream(STREAM, data=arguments.data, image_size=config.image_size)
    rows: list[list[str]] = []

    def look(learner: Learner, _: Stream, task: int) -> None:
        if task > 0:
            rows.append([str(task + 1), *fitted(learner)])

    train(config, stream, probe=look, read=True)
    print(markdown(["task", "WA: γ", "BiC: a", "BiC: b", "IL2M: factors"], rows))


def fitted(learner: Learner) -> list[str]:
    """The numbers of each correction, for the newest and for the old classes."""
    readings, lesson = learner.state.readings, learner.state.lesson
    newest = lesson.new[0]
    numbers = [
        readings[name][key][newest].item()
        for name, key in (("wa-eval", "scale"), ("bic", "scale"), ("bic", "shift"))
    ]
    factors = readings["il2m"]["factor"][list(lesson.old)]
    return [*(f"{number:.2f}" for number in numbers), f"{factors.min():.2f} to {factors.max():.2f}"]


if __name__ == "__main__":
    main()
