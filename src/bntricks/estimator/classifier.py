"""scikit-learn's habits: a classifier that learns class after class by `partial_fit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from numbers import Integral, Real
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bntricks.errors import UserError
from bntricks.estimator.labels import NONE, Labels
from bntricks.estimator.lessons import study
from bntricks.estimator.tensors import Array, labelled, samples
from bntricks.model.create import check_samples, described, equip, protocol
from bntricks.model.metadata import Look
from bntricks.networks.mlp import perceptron
from bntricks.networks.resnet import ResNet
from bntricks.runs.resolve import check_device
from bntricks.seeds import Generators, construction
from bntricks.streams import Images, Task
from bntricks.streams.tasks import first_task_moments
from bntricks.training.learner import Learner

VECTOR_WIDTH, IMAGE_WIDTH = 64, 16


class WrongValue(UserError, ValueError):
    """A user's mistake, of the type that scikit-learn's tools expect."""


class IncrementalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network with BatchNorm that learns new classes and keeps the old ones, by any method of
    this package.

    X are vectors [N, features], for a perceptron of two hidden layers, or images [N, C, H, W] or
    [N, H, W, C], for a ResNet: uint8, normalised by the moments of the first call, or floats,
    taken as they are. Labels are of any kind.

    >>> model = IncrementalClassifier(random_state=0)
    >>> model.partial_fit(X[y < 5], y[y < 5])
    >>> model.partial_fit(X[y >= 5], y[y >= 5])  # a new task
    >>> model.predict(X)  # among all ten classes

    `memory` counts samples, `epochs` the passes over what a call brings, `width` the units of a
    hidden layer (64) or the channels of the first stage (16). `blocks`, `stages` and `augment`
    (random crop and flip of uint8) are for images. `tasks` says how many tasks there will be, to
    methods that must know (GEM, A-GEM); `hyper` maps the method's hyper-parameters to values. An
    integer as `random_state` is the seed of everything: the same calls make the same bits.
    `lr` and `epochs` are read at every call, the others when learning begins.

    `classes_` are the labels, sorted; `net_` is the network.
    """

    classes_: Array
    _learner: Learner
    _labels: Labels

    def __init__(
        self,
        method: str = "er-bnt",
        *,
        memory: int = 500,
        epochs: int = 30,
        batch: int = 32,
        memory_batch: int = 32,
        lr: float = 0.03,
        width: int | None = None,
        blocks: int = 2,
        stages: int = 4,
        augment: bool = False,
        tasks: int | None = None,
        hyper: Mapping[str, float] | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.memory = memory
        self.epochs = epochs
        self.batch = batch
        self.memory_batch = memory_batch
        self.lr = lr
        self.width = width
        self.blocks = blocks
        self.stages = stages
        self.augment = augment
        self.tasks = tasks
        self.hyper = hyper
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, and learn all of this as one task."""
        return self._learn(X, y, None, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Iterable[Any] | None = None) -> Self:
        """Learn on. Samples of the current task's classes go on with it; all others begin a task,
        whose classes are those that came, new ones and known ones alike.

        `classes` may list all that will ever come: they have outputs from then on, and a column of
        `predict_proba` each. Without it, outputs are added as classes come.
        """
        return self._learn(X, y, classes, anew=not hasattr(self, "_learner"))

    def predict(self, X: Any) -> Array:
        """The class of each sample, among all that were seen."""
        best = self._scores(X).argmax(1).numpy()
        return self.classes_[best]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, a column for each of `classes_`; 0 for a class never seen."""
        return self._scores(X).softmax(1).numpy()

    @property
    def net_(self) -> nn.Module:
        """The network, for the doctor or a loop of your own."""
        return self._learner.net

    def _learn(self, X: Any, y: Any, classes: Iterable[Any] | None, *, anew: bool) -> Self:
        with _value_errors():
            epochs, lr = _whole("epochs", self.epochs), _rate(self.lr)
            x, given = labelled(self, X, y, reset=anew)
            labels = (NONE if anew else self._labels).joined(given, classes)
            outputs = len(labels.outputs)
            learner = self._fresh(x, outputs) if anew else self._learner
            check_samples(learner, x)
            columns = torch.from_numpy(labels.columns(given))
            study(learner, x, columns, outputs=outputs, lr=lr, epochs=epochs)
        self._learner, self._labels, self.classes_ = learner, labels, labels.classes
        return self

    def _scores(self, X: Any) -> Tensor:
        """[N, classes_]; -inf for a class never seen."""
        check_is_fitted(self)
        with _value_errors():
            x = samples(self, X)
            check_samples(self._learner, x)
        scores = self._learner.scores(x).double()
        seen = torch.zeros(scores.shape[1], dtype=torch.bool)
        seen[list(self._learner.state.lesson.seen)] = True
        return scores.masked_fill(~seen, -torch.inf)[:, torch.from_numpy(self._labels.order)]

    def _fresh(self, x: Tensor, outputs: int) -> Learner:
        """A learner for such samples that knows nothing yet."""
        images, device = x.dim() == 4, _checked_device(self.device)
        random = check_random_state(self.random_state)
        given = isinstance(self.random_state, Integral)
        width = IMAGE_WIDTH if images else VECTOR_WIDTH
        if self.width is not None:
            width = _whole("width", self.width)
        network = {"channels": x.shape[1], "width": width}
        network |= {"blocks": self.blocks, "stages": self.stages}
        if not isinstance(self.hyper, Mapping | None):
            raise UserError(f"hyper is {self.hyper!r}: give a mapping, such as {{'alpha': 0.2}}")
        about = described(
            **protocol(
                method=str(self.method),
                memory=self.memory,
                lr=float(self.lr),
                batch=self.batch,
                memory_batch=self.memory_batch,
                tasks=self.tasks,
                hyper=self.hyper or {},
            ),
            seed=int(self.random_state if given else random.randint(2**31)),
            network=network if images else None,
            shape=tuple(x.shape[1:]),
            view=_look(x, augment=self.augment) if x.dtype == torch.uint8 else None,
        )
        generators = Generators.of(about.seed)
        with construction(generators.init):
            net = (
                perceptron(x.shape[1], outputs, width=width)
                if about.network is None
                else ResNet(outputs, **about.network.model_dump())
            )
        return equip(net, about, generators, device)

    def __getstate__(self) -> dict[str, Any]:
        """A recipe is made of functions, which cannot be pickled; it is made again by its name."""
        state = dict(super().__getstate__())
        if "_learner" in state:
            learner: Learner = state["_learner"]
            rest = {**learner.state_dict(), "net": None}
            state["_learner"] = (learner.about, learner.net, str(learner.device), rest)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_learner" in state:
            about, net, device, rest = state["_learner"]
            self._learner = equip(net, about, Generators.of(about.seed), device)
            self._learner.load_state_dict({**rest, "net": net.state_dict()})


def _look(x: Tensor, *, augment: bool) -> Look:
    images = Images(x, torch.empty(0))
    mean, std = first_task_moments([Task((), images, images)])
    return Look(mean=mean, std=std, pad=x.shape[-1] // 8 if augment else 0, flip=augment)


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or int(value) < 1:
        raise UserError(f"{name} is {value!r}: it must be a whole number from 1 on")
    return int(value)


def _rate(value: Any) -> float:
    if not isinstance(value, Real) or not 0 < float(value) < inf:
        raise UserError(f"lr is {value!r}: it must be a number above 0, such as 0.03")
    return float(value)


def _checked_device(name: Any) -> str:
    try:
        check_device(str(name))
    except (KeyError, RuntimeError):
        raise UserError(f"device is {name!r}: give cpu, cuda, cuda:N or mps") from None
    return str(name)


@contextmanager
def _value_errors() -> Iterator[None]:
    """Mistakes in scikit-learn's way, about parameters and not about the command line's flags."""
    try:
        yield
    except UserError as error:
        raise WrongValue(str(error).replace("--", "").replace("\n", "; ")) from None
