"""The state of a learner between two steps as a value, to go on from later to the same bits."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

from torch import Tensor, nn

from bntricks.networks.head import keep_outputs, last_linear
from bntricks.recipes.lesson import Lesson
from bntricks.seeds import Generators
from bntricks.training.state import Cost, State, no_samples


def previous(net: nn.Module) -> nn.Module:
    """The network as it is now, to be asked and never trained."""
    return copy.deepcopy(net).eval().requires_grad_(False)


def snapshot(state: State, generators: Generators) -> dict[str, Any]:
    """Tensors and plain values, nested. The tensors are the learner's own, not copies."""
    lasting = state.method.classify.fits == "task end"
    observed = {k: v for each in state.observers for k, v in each.state_dict().items()}
    return observed | {
        "net": state.net.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "memory": None if state.memory is None else state.memory.state_dict(),
        "generators": generators.state_dict(),
        "lesson": asdict(state.lesson),
        "teacher": None if state.teacher is None else state.teacher.state_dict(),
        "recorded": state.recorded,
        "fitted": state.fitted if lasting else {},
        "averages": {name: net.state_dict() for name, net in state.averages.items()},
        "trained_on": state.trained_on,
        "cost": asdict(state.cost),
        "since_skip": state.since_skip,
    }


def restore(state: State, generators: Generators, values: dict[str, Any]) -> None:
    """Bring a state that was made alike to where another one was."""
    state.net.load_state_dict(values["net"])
    state.optimiser.load_state_dict(values.get("optimiser", {}))
    if state.memory is not None:
        state.memory.load_state_dict(values["memory"])
    generators.load_state_dict(values["generators"])
    lesson = values["lesson"]
    new, old = tuple(lesson["new"]), tuple(lesson["old"])
    visitors = tuple(lesson.get("visitors", ()))  # there are states from before them
    state.lesson = Lesson(lesson["t"], new, old, lesson["size"], visitors)
    state.teacher = None
    if values["teacher"] is not None:
        state.teacher = _taught(state.net, values["teacher"])
    device = state.device
    recorded: Tensor | None = values["recorded"]
    state.recorded = None if recorded is None else recorded.to(device)
    state.fitted = {name: t.to(device) for name, t in values.get("fitted", {}).items()}
    for observer in state.observers:
        observer.load_state_dict(values)
    for name, net in state.averages.items():
        net.load_state_dict(values["averages"][name])
    counts: Tensor | None = values.get("trained_on")
    state.trained_on = no_samples() if counts is None else counts.double()  # int64 in older ones
    state.cost, state.since_skip = Cost(**values["cost"]), values["since_skip"]
    state.train_mode()


def _taught(net: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """A teacher with these weights, whose head may have fewer outputs: the network's has grown."""
    teacher = previous(net)
    linear = last_linear(teacher)
    head = next(name for name, module in teacher.named_modules() if module is linear)
    keep_outputs(teacher, range(len(weights[f"{head}.weight"])))
    teacher.load_state_dict(weights)
    return teacher
