"""Which images come in which task: options of a run, and keywords of `open_stream`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from bntricks.errors import UserError
from bntricks.files import parse_json
from bntricks.options import Option, Options


class StreamOptions(Options):
    """How a stream is cut into tasks, and how much of it is learned."""

    augment: Literal["standard", "none"] = "standard"
    """Random crop and flip, or neither."""
    image_size: Annotated[int | None, Field(ge=8, le=512), Option(unset="the images' own")] = None
    """Side to shrink images to (area mean) [default: their own; folder: 32]."""
    images_per_class: Annotated[int | None, Field(ge=1), Option(unset="all")] = None
    """Use only the first N training images of each class [default: all]."""
    classes_per_task: Annotated[int | None, Field(ge=1)] = None
    """Classes in each task; the last may have fewer [default: the stream's; folder: 2]."""
    first: Annotated[int | None, Field(ge=1), Option(decides_phi=True)] = None
    """Classes in the first task, where later ones have as many as `increment` says."""
    increment: Annotated[int | None, Field(ge=1), Option(decides_phi=True)] = None
    """Classes in each task after the first; the last may have fewer."""
    tasks: Annotated[
        tuple[str, ...] | None, Option(decides_phi=True, study_flag=False, competes=False)
    ] = None
    """One list of classes a task, as 'cat,dog' or '["cat", "dog"]', by name or by number."""
    class_order: Annotated[str | None, Option(unset="the usual")] = None
    """The order in which classes come: a seed, such as 1993, or all of them in a list, as
    'dog,cat,owl', '["dog", "cat", "owl"]' or '1,0,2' [default: the stream's]."""
    blurry: Annotated[float, Field(ge=0, lt=1), Option(decides_phi=True)] = 0.0
    """Share of each class's training images that come in other tasks than its own."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Folder streams: share of each class's images kept for testing."""
    validation: Annotated[float | None, Field(gt=0, lt=1), Option(competes=False)] = None
    """Test on this share of each class's training images, and train on the rest; the test images
    are left alone [default: test on the test images]."""

    @field_validator("class_order", mode="before")
    @classmethod
    def _order_as_text(cls, order: Any) -> Any:
        """From Python, a number or a list; here the order is always text."""
        if isinstance(order, list | tuple):
            return json.dumps([str(name) for name in order], ensure_ascii=False)
        return str(order) if isinstance(order, int) else order

    @field_validator("tasks", mode="before")
    @classmethod
    def _as_text(cls, tasks: Any) -> Any:
        """The command line decodes JSON lists by itself; here a task is always text."""
        if not isinstance(tasks, list | tuple):
            return tasks
        return tuple(t if isinstance(t, str) else json.dumps(t, ensure_ascii=False) for t in tasks)

    @property
    def rearrangement(self) -> dict[str, Any]:
        """These options as keywords of `open_stream`."""
        keywords = set(StreamOptions.model_fields) - {"augment", "validation"}
        values = self.model_dump(include=keywords)
        if self.tasks is not None:
            values["tasks"] = [class_names(text, "tasks") for text in self.tasks]
        if (order := self.class_order) is not None:
            is_seed = order.isdecimal()
            values["class_order"] = int(order) if is_seed else class_names(order, "class_order")
        return values


def class_names(text: str, option: str) -> list[str]:
    """The names in 'cat,dog' or '["cat", "dog"]', which is the value of this option."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        names = parse_json(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(
            "neither 'cat,dog' nor a JSON list of class names", option=option, value=text
        )
    return names
