"""Records made up for whole studies, of which every claim can be judged."""

import random

from bntricks.paper import load_study
from helpers.records import a_run

TASKS = {"seq-cifar10": 5, "seq-cifar100": 10, "seq-tiny-imagenet": 10}
MEMORYLESS = ("joint", "sgd", "lwf")


def study_runs(name, scale="lite", *, seeds=3, cut_down=False, streams=None):
    """A run for each configuration of the study; BN Tricks forms end some points higher."""
    noise = random.Random(name)
    return [
        _run(config, noise, cut_down)
        for config in load_study(name).configs(scale, seeds=seeds)
        if streams is None or config.stream in streams
    ]


def confused(run):
    """The same run, with two classes a task and some of them taken for the first one."""
    tasks = len(run.accuracy)
    classes = [[2 * task, 2 * task + 1] for task in range(tasks)]
    names = [f"class {label}" for label in range(2 * tasks)]
    data = run.data.model_copy(update={"classes": classes, "class_names": names})
    confusion = {label: {label: 3, 0: 2} for label in range(1, 2 * tasks)} | {0: {0: 5}}
    return run.model_copy(update={"data": data, "confusion": confusion})


def _run(config, noise, cut_down):
    tasks = TASKS.get(config.stream, 20)
    bnt = config.method.endswith("-bnt")
    final = 30 + 10 * bnt + len(config.method) + (config.memory or 0) / 1000
    r = [[None] * tasks for _ in range(tasks)]
    for after in range(tasks):
        for task in range(after + 1):
            r[after][task] = 90.0 if after == task else final + task + noise.uniform(-3, 3)
    if config.method == "joint":
        r = [*([[None] * tasks] * (tasks - 1)), [80.0] * tasks]
    knobs = config.model_dump(exclude={"hyper"})
    if config.method in MEMORYLESS:
        knobs["memory"] = None
    elif config.memory is None:
        knobs["memory"] = {"seq-cifar10": 500, "seq-cifar100": 1000}.get(config.stream, 2000)
    return a_run(r=r, cut_down=cut_down, forwards_per_step=3.0 if bnt else 1.0, **knobs)
