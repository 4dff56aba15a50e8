"""Predictions of other methods from the same training: methods that move θ alike, but differ in how
labels are read off, or in the batch that φ follows. The latter have a copy of the network that
shares θ and has a φ of its own."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bntricks.batch import Batch
from bntricks.norm import ema_reach, mode, skip_ema, update_ema
from bntricks.recipes.classifiers import Fitted
from bntricks.recipes.language import Method, Source
from bntricks.system.devices import to_device
from bntricks.training.learner import Learner
from bntricks.training.step import Draws


class Readings:
    """An observer that fits these methods, by name, to the learner's θ, to predict as they would.
    It does not count as the learner's cost. The head must not grow meanwhile."""

    def __init__(self, learner: Learner, methods: Mapping[str, Method]) -> None:
        self.learner, self.methods = learner, methods
        self.fitted: dict[str, Fitted] = {}
        """The fits of their classifiers."""
        self.twins: dict[str, tuple[Source, nn.Module]] = {
            name: (method.ema, with_own_buffers(learner.net))
            for name, method in methods.items()
            if method.ema is not None and method.ema != learner.method.ema
        }
        """For methods whose φ follows another batch: that batch, and the network with that φ."""
        learner.state.observers.append(self)

    def step(self, draws: Draws, horizon: int | None) -> None:
        """Move the φ of the copies, as the step itself moves its own."""
        state, reach = draws.state, ema_reach(self.learner.net)
        for ema, net in self.twins.values():
            batch = draws.batch(ema)
            if batch is None or len(batch) < 2:
                continue
            if horizon is None or reach is None or horizon <= reach:
                if not net.training:  # somebody called eval()
                    net.train()
                # With the dropout of the method's own training.
                with state.passing(draws.pass_of(batch)), state.arithmetic(batch.x):
                    update_ema(net, batch.x)
            else:
                skip_ema(net)
                state.since_skip = 0

    def task_end(self, samples: Batch | None) -> None:
        for name in self.methods:
            reader = self.read_by(name)
            with mode(reader.net, training=False):
                self.fitted[name] = reader.method.classify.fit(reader.state, samples)

    def read_by(self, name: str) -> Learner:
        """Return the learner as this method, for prediction only."""
        own = self.learner.state
        _, net = self.twins.get(name, (None, own.net))
        other = copy.copy(self.learner)
        fitted = self.fitted.get(name, {})
        other.state = replace(own, net=net, method=self.methods[name], fitted=fitted)
        return other

    def state_dict(self) -> dict[str, Any]:
        twins = {name: dict(net.named_buffers()) for name, (_, net) in self.twins.items()}
        return {"readings": self.fitted, "twins": twins}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, (_, net) in self.twins.items():
            for buffer, value in net.named_buffers():
                value.copy_(state["twins"][name][buffer])
        self.fitted = {
            reading: {name: to_device(value, self.learner.device) for name, value in own.items()}
            for reading, own in state["readings"].items()
        }


def with_own_buffers(net: nn.Module) -> nn.Module:
    """Copy a network but share its parameters."""
    return copy.deepcopy(net, {id(parameter): parameter for parameter in net.parameters()})
