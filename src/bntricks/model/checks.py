"""Whether a model can be taught these classes."""

from collections.abc import Sequence

from bntricks.errors import UserError
from bntricks.model.model import Model
from bntricks.networks.head import last_linear
from bntricks.training.events import Sink, warning

FEW_EACH = 2
"""Images of each class that a memory must have room for, to go without a warning."""


def check_can_learn(model: Model) -> None:
    """Refuse a model that was saved without what it rehearses."""
    if not model.metadata.with_memory and model.learner.method.memory is not None:
        raise UserError(
            "this model was saved without its memory: it predicts, but cannot be taught more; "
            "teach the file that has its memory"
        )


def check_classes(model: Model, names: Sequence[str], *, more: bool) -> list[str]:
    """Return the known classes among these; refuse classes that cannot be learned now."""
    metadata, policy = model.metadata, model.learner.method.memory
    known = [name for name in names if name in metadata.classes]
    if known and not more:
        raise UserError(
            f"the model knows {', '.join(map(repr, known[:5]))} already: give new classes only, or "
            "say that these are more images of them",
            remedy="more",
        )
    if known and policy is not None and policy.one_each is not None:
        raise UserError(
            f"{metadata.method} shares out its memory as classes come, once: it cannot learn more "
            "images of a known class; er-even-bnt can"
        )
    if policy is not None and policy.one_each is not None:
        classes, tasks = len(metadata.classes) + len(names), len(metadata.taught) + 1
        needed = {"class": classes, "task": tasks}[policy.one_each]
        if metadata.memory < needed:
            raise UserError(
                f"{metadata.method} keeps an image of each {policy.one_each}, and there are now "
                f"{needed}: its memory of {metadata.memory} is too small; begin again with a "
                "larger one",
                remedy="memory",
            )
    if metadata.tasks is not None and len(metadata.taught) >= metadata.tasks:
        raise UserError(f"the model was made for {metadata.tasks} tasks, and has learned them all")
    if metadata.taught and last_linear(model.net).out_features != len(metadata.classes):
        raise UserError("the network's outputs are not its classes: load the model again")
    return known


def warn_of_a_small_memory(model: Model, classes: int, sink: Sink) -> None:
    """Warn of a memory without room for some images of each class."""
    memory = model.learner.memory
    if memory is not None and memory.capacity < FEW_EACH * classes:
        warning(sink)(
            f"the memory of {memory.capacity} images is small for {classes} classes: with fewer "
            f"than {FEW_EACH} of each, old classes are forgotten; begin a new model with a memory "
            f"of {20 * classes} or so, or with a pretrained network as backbone"
        )
