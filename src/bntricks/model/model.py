"""A model: a learner whose outputs have names, and images to measure it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from torch import Tensor, nn

from bntricks.errors import RunError
from bntricks.model.history import Event, appended, entry
from bntricks.model.metadata import Metadata
from bntricks.model.samples import check_samples, choosing, to_tensor
from bntricks.streams import Images
from bntricks.training.learner import Learner
from bntricks.training.state import View

if TYPE_CHECKING:
    from bntricks.model.answers import Acceptance, Answer
    from bntricks.model.pretrained import Frozen
    from bntricks.model.summary import Learned


@dataclass
class Model:
    """A network that learns new classes from images and keeps the old ones.

    >>> model = Model.adopt(net, classes=["cat", "dog"], memory="photos/old", view=view)
    >>> print(model.learn("photos/new", epochs=20))
    >>> model.predict(["a.jpg"])
    >>> model.save("model.safetensors")
    """

    learner: Learner
    metadata: Metadata
    held_out: Images | None = None
    """Never trained on, to measure what is still known."""
    frozen: Frozen | None = None
    """What a model on a frozen trunk has in place of images."""
    checksum: str | None = None
    """Of the file that it was read from or last written to."""

    @classmethod
    def create(cls, images: Any = None, *, backbone: str | None = None, **how: Any) -> Model:
        """Make a model that has learned nothing yet. With a `backbone`, it begins with a pretrained
        network of this name, and needs no images: see `bntricks.model.pretrained`. Otherwise it is
        a new one for the classes of these images: see `bntricks.model.create.create`."""
        if backbone is not None:
            from bntricks.model.pretrained import create_pretrained

            return create_pretrained(backbone, **how)
        from bntricks.model.create import create

        return create(images, **how)

    @classmethod
    def adopt(cls, net: nn.Module, *, classes: Sequence[str], **how: Any) -> Model:
        """Make a model from a copy of a trained network, whose outputs are `classes`: see
        `bntricks.model.adopt.adopt`."""
        from bntricks.model.adopt import adopt

        return adopt(net, classes=classes, **how)

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        net: nn.Module | Callable[[], nn.Module] | None = None,
        device: str = "cpu",
    ) -> Model:
        """Load the model in a file that `save` wrote. An adopted network's code is not in it: give
        the network, or the function that builds it, as `net`."""
        from bntricks.model.file import load

        return load(Path(path), net=net, device=device)

    def save(
        self, path: Path | str, *, memory: bool = True, keep: int | Path | str | None = None
    ) -> None:
        """Write one safetensors file, whole or not at all. Without its memory it is smaller, holds
        no images and predicts the same, but cannot be taught more. With `keep`, the model that was
        there stays beside it by its number, and so many of the earlier ones in all; without, those
        are left alone."""
        from bntricks.model.file import save

        if isinstance(keep, str | Path):  # until 0.4
            warn("save(keep=…) takes a number of models, not a path", FutureWarning, stacklevel=2)
            keep = Path(keep)
        save(self, Path(path), memory=memory, keep=keep)

    def note(self, event: Event, **values: Any) -> None:
        """Add an entry to its history."""
        history = appended(self.metadata.history, entry(event, parent=self.checksum, **values))
        self.metadata = self.metadata.model_copy(update={"history": history})

    def learn(self, images: Any, *, epochs: int | None = None, **how: Any) -> Learned:
        """Learn new classes, or with `more=True` known ones from more images, and return the effect
        on all: see `bntricks.model.learn`."""
        from bntricks.model.learn import learn

        return learn(self, images, epochs=epochs, **how)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename classes, from old to new names."""
        from bntricks.model.classes import rename

        rename(self, names)

    def remove(self, names: Sequence[str]) -> None:
        """Remove classes, with their images; the others are answered as before."""
        from bntricks.model.classes import remove

        remove(self, names)

    def predict(self, x: Any) -> list[str]:
        """Predict the class of each sample: arrays, tensors or paths of images."""
        return [self.classes[column] for column in self.scores(x).argmax(1)]

    def predict_proba(self, x: Any) -> Tensor:
        """Return a probability for every class, [N, C], a column for each of `classes`."""
        return self.probabilities(self.scores(x))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn scores into probabilities, at the temperature that fits held-out images."""
        return (scores / self.metadata.temperature).softmax(1)

    def scores(self, x: Any) -> Tensor:
        """Return a score for every class, [N, C]."""
        samples = to_tensor(x, self.metadata.square)
        check_samples(self.metadata, samples)
        scores = self.learner.scores(samples)
        if not scores.softmax(1).isfinite().all():
            raise RunError(
                "the network's scores are not finite: its weights or its normalisation are "
                "damaged; use a copy of the model"
            )
        return scores

    def answer(self, x: Any, *, top: int = 1, threshold: float | None = None) -> tuple[Answer, ...]:
        """Return the likeliest classes of each sample; no label where none is above the
        threshold."""
        from bntricks.model.answers import answer

        return answer(self, x, top=top, threshold=threshold)

    def acceptance(self, unknown: Any = None, **how: Any) -> Acceptance:
        """Measure how many samples of known and unknown classes pass a threshold, or choose one
        that few unknown ones pass: see `bntricks.model.answers.acceptance`."""
        from bntricks.model.answers import acceptance

        return acceptance(self, unknown, **how)

    def card(self, *, title: str = "Model card", verdict: str | None = None) -> str:
        """Write the model card in Markdown; `verdict` is the doctor's."""
        from bntricks.model.card import model_card

        return model_card(self, title=title, verdict=verdict)

    def export(self, path: Path | str, *, threshold: float | None = None) -> float:
        """Write an ONNX file, or a torch.export file if its name ends in `.pt2`; return the largest
        difference of its probabilities from the model's own. With a threshold, it has an output
        `accepted`."""
        from bntricks.files import commit, write_errors
        from bntricks.model.export import to_onnx, to_pt2

        path = Path(path)
        content, difference = (to_pt2 if path.suffix == ".pt2" else to_onnx)(self, threshold)
        with write_errors(path):
            commit({path: content})
        return difference

    @property
    def tests(self) -> Images | None:
        """The samples that the model is measured on: held-out images, or their features."""
        return self.held_out if self.frozen is None else self.frozen.tests

    @property
    def confirming(self) -> Images | None:
        """Those among them that have chosen nothing, and tell the accuracy."""
        if (tests := self.tests) is None:
            return None
        rows = ~choosing(tests.y)
        return type(tests)(tests.x[rows], tests.y[rows])

    def test_scores(self, x: Tensor) -> Tensor:
        """Return a score for every class, of samples like those of `tests`."""
        if self.frozen is None:
            return self.learner.scores(x)
        from bntricks.model.pretrained import feature_scores

        return feature_scores(self, x)

    @property
    def net(self) -> nn.Module:
        return self.learner.net

    @property
    def view(self) -> View:
        return self.learner.view

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its outputs, in order."""
        return self.metadata.classes

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Its classes by the task they came with, in the order they were learned."""
        return self.metadata.groups
