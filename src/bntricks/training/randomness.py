"""Seeds for dropout and all else that draws from the global generators of torch, Python and numpy.

Draws follow from the run's seed, the task, the step and the name of the part that draws, such as a
pass. So a pass that is left out or added shifts no other, a resumed run draws the same, and the
caller's generators are restored. Networks and methods in which nothing can draw are not seeded.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from types import FunctionType

import torch
from torch import Generator, nn

from bntricks.recipes.language import Method
from bntricks.seeds import borrowed_generators, derived_seed, seed_globally

DETERMINISTIC = (
    "torch.nn.modules.activation",
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.container",
    "torch.nn.modules.conv",
    "torch.nn.modules.flatten",
    "torch.nn.modules.linear",
    "torch.nn.modules.normalization",
    "torch.nn.modules.padding",
    "torch.nn.modules.pooling",
    "torch.nn.modules.upsampling",
)
"""Modules of torch whose layers draw nothing, except those in `DRAWING`."""
DRAWING = (nn.RReLU, nn.MultiheadAttention, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
NOTHING: AbstractContextManager[None] = nullcontext()


class Randomness:
    """Seeds the global generators for each part of a training, by name."""

    def __init__(self, source: Generator) -> None:
        self.source = source
        """The source of all seeds, which is saved as one of the run's generators."""
        self.task, self.step = 0, 0
        """A number for the task, and how many of its steps are over."""
        self.in_passes, self.outside = True, True
        """Whether anything may draw in a pass through a network, and elsewhere in a step."""
        self._looked_at: tuple[object, ...] = ()
        self._borrowed = False
        self._inside = ""

    def look(self, modules: Iterable[nn.Module], method: Method, *others: object) -> bool:
        """Check whether anything in a step may draw."""
        if (method, *others) != self._looked_at:
            self._looked_at, self.outside = (method, *others), code_draws(method, *others)
        self.in_passes = self.outside or networks_draw(modules)
        return self.in_passes

    def begin(self, order: Generator, classes: tuple[int, ...]) -> None:
        """Begin a task with these classes; the state of the order generator tells lessons apart."""
        position = hashlib.sha256(order.get_state().numpy().tobytes()).hexdigest()
        self.task, self.step = derived_seed(position, classes), 0

    def state_dict(self) -> dict[str, int]:
        return {"task": self.task, "step": self.step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.task, self.step = state["task"], state["step"]

    @contextmanager
    def borrowed(self, device: torch.device) -> Iterator[None]:
        """Restore the caller's generators when this is over, rather than after each part."""
        if self._borrowed:
            yield
            return
        self._borrowed = True
        try:
            with borrowed_generators([device]):
                yield
        finally:
            self._borrowed = False

    def of_step(self, part: str, device: torch.device) -> AbstractContextManager[None]:
        """Seed the draws of this part of the current step."""
        return self.part(f"{self.task} {self.step} {part}", device)

    @contextmanager
    def part(self, part: str, device: torch.device) -> Iterator[None]:
        """Seed the draws of this part. Parts may be nested."""
        seed = self.source.initial_seed()
        outer, self._inside = self._inside, part
        try:
            with NOTHING if self._borrowed else self.borrowed(device):
                seed_globally(derived_seed(seed, part), [device])
                yield
                if outer:
                    seed_globally(derived_seed(seed, outer, "after", part), [device])
        finally:
            self._inside = outer


def networks_draw(modules: Iterable[nn.Module]) -> bool:
    """Whether a module may draw: one that is not known as deterministic, or has foreign hooks."""
    for module in modules:
        kind = type(module)
        if kind not in _DRAWS:
            own = kind.__module__ in DETERMINISTIC or kind.__module__.startswith("bntricks.")
            _DRAWS[kind] = issubclass(kind, DRAWING) or not own
        if _DRAWS[kind]:
            return True
        if module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__:
            hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
            if not all(map(_is_ours, (*hooks, module.__dict__.get("forward")))):
                return True
    return False


_DRAWS: dict[type, bool] = {}
"""Classes of modules seen so far, and whether they may draw."""


def code_draws(method: Method, *others: object) -> bool:
    """Whether anything else in a step may draw: functions and objects from outside this package."""
    losses = (term.loss.of for update in method.updates for term in update.terms)
    return not all(map(_is_ours, chain(losses, (method.memory, method.project), others)))


def _is_ours(thing: object) -> bool:
    """Whether this is code of this package."""
    while isinstance(thing, partial):
        thing = thing.func
    named = thing if isinstance(thing, FunctionType) else type(thing)
    return thing is None or named.__module__.startswith("bntricks.")
