"""Maps of features: test images as points of a plane, each with the class the network predicted.

A probe writes a map beside a run's record, as one JSON file, and the report draws it. A damaged map
is refused. Needs no torch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from bntricks.errors import UserError, first_mistake
from bntricks.files import pack_json, text_bytes, unpack_json, write_atomically
from bntricks.runs.record.measurements import (
    ROUNDING as ROUNDING,
    Label,
    Percent,
    Points,
    RecordPart,
)

PanelName = Literal["balanced", "biased", "before", "after"]
Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Picture = Annotated[str, Field(pattern=r"^data:image/png;base64,[A-Za-z0-9+/]+={0,2}$")]


class BiasedPhi(RecordPart):
    """One network under its own φ and under φ that is biased towards the last task."""

    accuracy: tuple[Percent, ...]
    """On each task, over all classes, with the run's own φ."""
    biased_accuracy: tuple[Percent, ...]
    share: Percent
    """The share of all predictions that are classes of the last task."""
    biased_share: Percent
    acc: Percent
    biased_acc: Percent
    acc_lost: Points
    last_task_gained: Points

    @classmethod
    def of(
        cls,
        accuracy: Sequence[float],
        biased_accuracy: Sequence[float],
        share: float,
        biased_share: float,
    ) -> Self:
        """Make it from measurements, with the numbers that follow from them."""
        acc, biased = _mean(accuracy), _mean(biased_accuracy)
        return cls(
            accuracy=tuple(accuracy),
            biased_accuracy=tuple(biased_accuracy),
            share=share,
            biased_share=biased_share,
            acc=acc,
            biased_acc=biased,
            acc_lost=acc - biased,
            last_task_gained=biased_share - share,
        )

    @model_validator(mode="after")
    def _follows(self) -> Self:
        if not self.accuracy or len(self.accuracy) != len(self.biased_accuracy):
            raise ValueError("both sets of statistics need an accuracy on every task")
        for name, stated, expected in (
            ("acc", self.acc, _mean(self.accuracy)),
            ("biased_acc", self.biased_acc, _mean(self.biased_accuracy)),
            ("acc_lost", self.acc_lost, self.acc - self.biased_acc),
            ("last_task_gained", self.last_task_gained, self.biased_share - self.share),
        ):
            if abs(stated - expected) > ROUNDING:
                raise ValueError(f"{name} does not follow from what was measured")
        return self


class Panel(RecordPart):
    """The places of the images, in arbitrary units, and their predicted classes."""

    name: PanelName
    x: tuple[Coordinate, ...]
    y: tuple[Coordinate, ...]
    predicted: tuple[Label, ...]


class Map(RecordPart):
    """The same images in one or several panels."""

    task: Annotated[int, Field(ge=1)]
    """The number of the task, from 1."""
    class_names: tuple[str, ...]
    """Name of each label of the stream."""
    labels: Annotated[tuple[Label, ...], Field(min_length=1)]
    images: tuple[Picture, ...]
    panels: Annotated[tuple[Panel, ...], Field(min_length=1)]
    biased_phi: BiasedPhi | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        lists = [self.images, *(each for p in self.panels for each in (p.x, p.y, p.predicted))]
        if any(len(each) != len(self.labels) for each in lists):
            raise ValueError("every image needs a label and a place in each panel")
        named = (*self.labels, *(label for p in self.panels for label in p.predicted))
        if max(named) >= len(self.class_names):
            raise ValueError("a label without a name")
        return self

    def panel(self, name: PanelName) -> Panel | None:
        return next((panel for panel in self.panels if panel.name == name), None)


def path_in(folder: Path, probe: str) -> Path:
    """Return the path of a probe's map in a run's folder."""
    return folder / f"map-{probe}.json"


def save(features: Map, path: Path) -> None:
    write_atomically(path, pack_json(features.model_dump(mode="json")))


def load(path: Path) -> Map | None:
    """Load a map, or return None if there is none."""
    try:
        # Maps of earlier versions have no checksum.
        return Map.model_validate(unpack_json(text_bytes(path), unsigned=True))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        reason = first_mistake(error) if isinstance(error, ValidationError) else error
        raise UserError(
            f"{path} is not a map of a run ({reason}): delete it, and its study makes it again"
        ) from None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
