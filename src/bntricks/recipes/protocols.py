"""What a recipe needs: each class in one task, announced tasks, and how large a memory."""

from bntricks.errors import UserError
from bntricks.recipes.language import REPLAYED, Bmix, Bp, Copies, Method, Source, Union


def splits_classes(method: Method) -> bool:
    """Whether a loss or the memory needs each class to come in one task only."""
    losses = [term.loss for update in method.updates for term in update.terms]
    kept = method.memory is not None and method.memory.each_class_once
    return kept or any(loss.each_class_once for loss in losses)


def check_task_free(method: Method) -> None:
    """Refuse a method that cannot learn without announced tasks."""
    if reason := needs_tasks(method):
        raise UserError(
            f"this method {reason}, so it cannot learn without tasks: choose one that only "
            "replays, such as er-bnt, or begin and end tasks",
            option="task_free",
        )


def check_memory(method: Method, *, capacity: int, memory_batch: int, tasks: int | None) -> None:
    """Refuse a memory that is too small for the method."""
    if method.memory is None:
        return
    if method.memory.needs_task_count and tasks is None:
        raise UserError(
            "this method shares out its memory in advance: say how many tasks there will be",
            option="tasks",
        )
    if memory_batch < 2 and _draws(method):
        raise UserError(
            "a replayed batch of one sample has no variance, so nothing would be learned from it: "
            "make it 2 or more",
            option="memory_batch",
            value=memory_batch,
        )
    needed = (tasks or 1) * getattr(method.project, "least_per_task", 0)
    if capacity < needed:
        raise UserError(
            "this method compares gradients of two or more samples of each task, and there are "
            f"{tasks}: make it {needed} or more",
            option="memory",
            value=capacity,
        )


def check_task_count(method: Method, t: int, tasks: int | None) -> None:
    """Refuse task number t if the memory was shared out among fewer."""
    shared_out = method.memory is not None and method.memory.needs_task_count
    if shared_out and tasks is not None and t > tasks:
        raise UserError(
            f"the memory is shared out among {tasks} tasks, and this would be one more: announce "
            "all of them",
            option="tasks",
            value=tasks,
        )


def needs_tasks(method: Method) -> str | None:
    """Say why a method needs announced tasks; None if it does not."""
    sources = [*method.sources, *([] if method.ema is None else [method.ema])]
    symbols = {symbol for source in sources for symbol in source.symbols()}
    memory = method.memory
    reasons = {
        "learns after the last task has come": method.joint,
        "looks at a whole task before learning it": method.prepare is not None,
        "asks the network as it was before the task": method.teacher is not None,
        "fills its memory when a task ends": memory is not None and memory.fills == "task end",
        "has work to do when a task ends": bool(method.stages)
        or method.classify.fits == "task end",
        "mixes the memory into the task": Bmix in symbols,
        "replays earlier tasks alone": Bp in symbols,
        "copies the memory batch for each earlier task": any(map(_copies, sources)),
        "weighs losses by the task's size": method.weighs_by_size,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _draws(method: Method) -> bool:
    """Whether a step draws a batch of the memory."""
    sources = (*method.sources, method.ema, getattr(method.project, "draws", None))
    symbols = {symbol for source in sources if source is not None for symbol in source.symbols()}
    return bool(symbols & (REPLAYED - {Bmix}))


def _copies(source: Source) -> bool:
    match source:
        case Union(left, right):
            return _copies(left) or _copies(right)
        case _:
            return isinstance(source, Copies)
