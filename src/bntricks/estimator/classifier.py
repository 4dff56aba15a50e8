"""A scikit-learn classifier that learns class after class by `partial_fit`."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bntricks.errors import PlannedError, UserError
from bntricks.estimator.data import NO_LABELS, Array, Labels, in_fixed_order, labelled, samples
from bntricks.estimator.lessons import learn_samples
from bntricks.model.create import build, preprocessing, protocol
from bntricks.model.metadata import Metadata, Network
from bntricks.model.options import Protocol
from bntricks.model.samples import check_samples
from bntricks.recipes.options import TrainingOptions
from bntricks.system.devices import on_host
from bntricks.training.backend import check_device, is_available
from bntricks.training.learner import Learner

VECTOR_WIDTH, IMAGE_WIDTH = 64, 16
BLOCK = 128
"""Samples that are predicted at once."""
NOTHING_YET = "nothing is learned yet: single samples wait for more"


class WrongValue(UserError, ValueError):
    """A user's mistake, as the error that scikit-learn's tools expect."""


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

    `memory` counts samples, `epochs` the passes over what a call brings, `batch` and `memory_batch`
    the samples in a batch, whose last one `even_batches` keeps from being small. `lr` is the
    highest rate of the `schedule`, by default the `optimiser`'s own. `width` counts the units of a
    hidden layer (64) or the channels of the first stage (16). `blocks`, `stages` and `augment`
    (random crop and flip of uint8) are for images. `tasks` says how many tasks there will be, to
    methods that need to know (GEM, A-GEM); `hyper` maps the method's hyper-parameters to values. An
    integer as `random_state` is the seed of everything: the same calls make the same bits.
    `lr` and `epochs` are read at every call, the others when learning begins.

    `classes_` are the labels, sorted; `net_` is the network.
    """

    classes_: Array
    _learner: Learner | None
    _metadata: Metadata
    _labels: Labels
    _waiting: tuple[Tensor, Array] | None = None
    """Single samples that are not learned yet, and their labels."""

    def __init__(
        self,
        method: str = "er-even-bnt",
        *,
        memory: int = 500,
        epochs: int = 30,
        batch: int = 32,
        memory_batch: int = 32,
        lr: float | None = None,
        optimiser: str = "adamw",
        schedule: str = "one-cycle",
        even_batches: bool = True,
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
        self.optimiser = optimiser
        self.schedule = schedule
        self.even_batches = even_batches
        self.width = width
        self.blocks = blocks
        self.stages = stages
        self.augment = augment
        self.tasks = tasks
        self.hyper = hyper
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, and learn all of this as one task, whatever order it comes in."""
        return self._learn(X, y, sample_weight, None, begun=False, least=2)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Iterable[Any] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Go on learning. Samples of the current task's classes continue it; all others begin a
        task, whose classes are those of the samples, new and known ones alike.

        `classes` may list all that will ever appear: they have outputs from then on, and a column
        of `predict_proba` each. Without it, outputs are added as classes appear.

        A single sample waits for more, because BatchNorm needs a variance: it is learned with the
        next call of several, or when `batch` samples wait.
        """
        begun = hasattr(self, "_labels")
        return self._learn(X, y, sample_weight, classes, begun=begun, least=1)

    def predict(self, X: Any) -> Array:
        """Predict the class of each sample, among all classes seen."""
        best = self._scores(X).argmax(1).numpy()
        return self.classes_[best]  # type: ignore[no-any-return]

    def decision_function(self, X: Any) -> Array:
        """Return scores, a column for each of `classes_`; -inf for a class never seen. Of two
        classes, the difference: above 0 for the second."""
        scores = self._scores(X)
        binary = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        return binary.numpy()

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, a column for each of `classes_`; 0 for a class never seen."""
        return self._scores(X).softmax(1).numpy()

    def predict_log_proba(self, X: Any) -> Array:
        """Return logarithms of the probabilities; -inf for a class never seen."""
        return self._scores(X).log_softmax(1).numpy()

    @property
    def net_(self) -> nn.Module:
        """The network, for the doctor or a loop of your own."""
        check_is_fitted(self)
        if self._learner is None:
            raise WrongValue(NOTHING_YET)
        return self._learner.net

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: Iterable[Any] | None,
        *,
        begun: bool,
        least: int,
    ) -> Self:
        with _value_errors():
            effort = TrainingOptions.of(
                epochs=self.epochs, **({} if self.lr is None else {"lr": self.lr})
            )
            given = np.asarray(y).size
            x, y = labelled(self, X, y, sample_weight, reset=not begun, least=least)
            single = min(given, len(y)) == 1
            labels = (self._labels if begun else NO_LABELS).joined(y, classes)
            metadata = self._metadata if begun else self._described(x)
            check_samples(metadata, x)
            learner = self._learner if begun else None
            if begun and self._waiting is not None:
                x = torch.cat([self._waiting[0], x])
                y = np.concatenate([self._waiting[1], y])
            waiting = None
            if single and len(y) < metadata.batch:
                waiting = (x, y)
            else:
                if least == 2:  # by `fit`
                    x, y = in_fixed_order(x, y)
                outputs = len(labels.outputs)
                if learner is None:
                    images = metadata.network is not None
                    name, shape = "resnet" if images else "mlp", self._network(images)
                    learner = build(metadata, name, outputs, str(self.device), shape)
                columns = torch.from_numpy(labels.columns(y))
                lr = metadata.lr if self.lr is None else effort.lr
                learn_samples(learner, x, columns, outputs=outputs, lr=lr, epochs=effort.epochs)
        self._learner, self._metadata, self._labels = learner, metadata, labels
        self._waiting, self.classes_ = waiting, labels.classes
        return self

    def _scores(self, X: Any) -> Tensor:
        """Score the samples, [N, classes_]; -inf for a class never seen."""
        check_is_fitted(self)
        with _value_errors():
            x = samples(self, X)
            check_samples(self._metadata, x)
            if self._learner is None:
                raise UserError(NOTHING_YET)
        scores = torch.full((len(x), len(self.classes_)), -torch.inf, dtype=torch.float64)
        seen = list(self._learner.state.lesson.seen)
        if x.dim() == 2:  # in blocks of one size, so that a score does not depend on the others
            x = torch.cat([x, x.new_zeros(-len(x) % BLOCK, x.shape[1])])
        found = self._learner.scores(x, batch=BLOCK)[: len(scores)]
        scores[:, seen] = found.double()[:, seen]
        return scores[:, torch.from_numpy(self._labels.order)]

    def _described(self, x: Tensor) -> Metadata:
        """Describe how such samples will be learned."""
        check_device(str(self.device))
        random = check_random_state(self.random_state)
        is_seed = isinstance(self.random_state, Integral)
        shape = self._network(x.dim() == 4)
        network = Network.of(channels=x.shape[1], **shape) if x.dim() == 4 else None
        how = Protocol.of(
            method=str(self.method),
            memory=self.memory,
            lr=self.lr,
            optimiser=str(self.optimiser),
            schedule=str(self.schedule),
            even_batches=bool(self.even_batches),
            batch=self.batch,
            memory_batch=self.memory_batch,
            tasks=self.tasks,
            hyper={} if self.hyper is None else self.hyper,
            seed=int(self.random_state if is_seed else random.randint(2**31)),
        )
        return Metadata.of(
            **protocol(how),
            network=network,
            shape=tuple(x.shape[1:]),
            view=preprocessing(x, augment=self.augment) if x.dtype == torch.uint8 else None,
        )

    def _network(self, images: bool) -> dict[str, Any]:
        width = IMAGE_WIDTH if images else VECTOR_WIDTH
        shape = {"blocks": self.blocks, "stages": self.stages}
        return {"width": width if self.width is None else self.width, **shape}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the recipe: its functions cannot be pickled, so it is rebuilt from its name."""
        state = dict(super().__getstate__())
        learner: Learner | None = state.get("_learner")
        if learner is not None:
            rest = on_host({**learner.state_dict(), "net": None})
            net = learner.net
            if learner.device.type != "cpu":  # a pickle must open where there is no such device
                net = copy.deepcopy(net).cpu()
            state["_learner"] = (net, str(learner.device), rest)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if state.get("_learner") is not None:
            net, device, rest = state["_learner"]
            device = device if is_available(device) else "cpu"
            self._learner = build(self._metadata, net, len(self.classes_), device)
            self._learner.load_state_dict({**rest, "net": net.state_dict()})


@contextmanager
def _value_errors() -> Iterator[None]:
    """Turn planned errors into the `ValueError` that scikit-learn's tools expect, in one line."""
    try:
        yield
    except PlannedError as error:
        raise WrongValue(str(error).replace("\n", "; ")) from None
