"""`bnt learn`: a folder of images becomes a model, and another one extends it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.adopt import TrainedNetwork, adopted
from bntricks.cli.app import (
    Count,
    Json,
    Seconds,
    Switch,
    Threads,
    app,
    flag,
    refuse_misspelt,
    whole,
)
from bntricks.cli.models import (
    check_target,
    examined,
    locked,
    names_before,
    open_model,
    prepare,
)
from bntricks.cli.printing import print_json, stdout_reserved
from bntricks.errors import RunError, UserError, abbreviated
from bntricks.files import shown

if TYPE_CHECKING:
    from bntricks.model import Model
    from bntricks.model.summary import Learned, Score


@app.command
def learn(
    folder: Path,
    /,
    *,
    into: Path,
    epochs: Count | None = None,
    lr: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    held_out: Annotated[float, Parameter(validator=Number(gte=0, lt=1))] = 0.2,
    method: str | None = None,
    memory: Annotated[int | None, whole(gte=1, lte=1_000_000)] = None,
    image_size: Annotated[int | None, whole(gte=8, lte=512)] = None,
    width: Annotated[int | None, whole(gte=1, lte=1024)] = None,
    blocks: Annotated[int | None, whole(gte=1, lte=64)] = None,
    stages: Annotated[int | None, whole(gte=1, lte=6)] = None,
    batch: Annotated[int | None, whole(gte=2, lte=1_000_000)] = None,
    augment: Literal["standard", "none"] | None = None,
    optimiser: str | None = None,
    schedule: str | None = None,
    tasks: Count | None = None,
    seed: Annotated[int | None, whole(gte=0, lt=2**32)] = None,
    net: str | None = None,
    trained: Annotated[TrainedNetwork | None, Parameter(name="*")] = None,
    more: Switch = False,
    skip_unreadable: Switch = False,
    without_memory: Switch = False,
    device: str = "cpu",
    threads: Threads = 1,
    checkpoint_seconds: Seconds = 120.0,
    json: Json = False,
    **hyper: float,
) -> None:
    """Teach a model the classes of a folder; if there is no model yet, make one.

    The folder has a folder of images for each class. Images may be of any size and kind: their
    centre square is taken, upright. Hidden files are left out, nested folders are not. The model
    is one file, which is replaced when all is learned, and stays as it was if that fails. A lesson
    that was interrupted, for whatever reason, continues when the command is repeated. If the
    advice is to learn again, the earlier file is kept beside it, with "before" in its name.

    Of each class some images are held out and never trained on: they are kept in the file, so
    that accuracy on old classes can be measured when their folder is gone.

    Examples:

    - `bnt learn photos/animals --into model.safetensors`
    - `bnt learn photos/more --into model.safetensors --epochs 50`
    - `bnt learn photos/more --into m.safetensors --net nets:build --weights w.safetensors
      --classes names.txt --old-images photos/old`

    Parameters
    ----------
    folder
        A folder with one folder of images for each new class.
    into
        The model file: created if it does not exist yet, extended if it does.
    epochs
        Passes over the new images [default: 30, or more for few images, to make 600 steps].
    lr
        Learning rate, the highest one of its schedule [default: the model's; for a new one 0.003,
        or 0.03 for sgd].
    held_out
        Share of each class kept for testing, 100 images at most; 0 to test nothing.
    method
        New model: how it learns and rehearses, by its name in `bnt methods` [default:
        er-even-bnt].
    memory
        New model: images it keeps to rehearse [default: 500].
    image_size
        New model: side of the squares that images are resized to [default: 32; for a
        network of your own what --preprocessing says, or 224].
    width
        New model: channels of the ResNet's first stage [default: 16].
    blocks
        New model: residual blocks in a stage [default: 1].
    stages
        New model: stages of the network [default: 4].
    batch
        New model: images in a batch of new ones, and of rehearsed ones [default: 64].
    augment
        New model: random crop and flip, or neither [default: standard].
    optimiser
        New model: how parameters move, `adamw` or `sgd` [default: adamw].
    schedule
        New model: how the learning rate changes while a folder is learned, `one-cycle` or
        `constant` [default: one-cycle].
    tasks
        New model: how many folders it will learn; GEM and A-GEM need to know.
    seed
        New model: decides initial weights, order, crops and what is kept [default: 0].
    net
        A model around a network of your own: what builds it, as `package.module:function`. It is
        imported and run.
    more
        Classes of the folder may be known already: continue training them on these images. Those
        that the model has already are left out.
    skip_unreadable
        Name images that cannot be read and leave them out, instead of refusing.
    without_memory
        Leave the memory and the test images out of the file: it holds no images and predicts the
        same, but cannot be taught more.
    device
        Where to compute: cpu, cuda, cuda:N or mps.
    threads
        CPU threads. Different counts give different bits.
    checkpoint_seconds
        Time between checkpoints of the lesson, in seconds.
    json
        Print what was learned as one JSON object.
    hyper
        New model: the method's own hyper-parameters, by the names `bnt methods` shows.
    """
    from bntricks.methods import entries, find
    from bntricks.model.create import IMAGE_SIZE, METHOD, create, protocol
    from bntricks.model.file import lesson_file
    from bntricks.model.learn import check_can_learn, teach
    from bntricks.model.samples import gather
    from bntricks.model.unfinished import checkpoints

    if (method or METHOD) in entries():
        refuse_misspelt(hyper.keys() - find(method or METHOD).hyper().keys(), "learn")
    prepare(device, threads)
    check_target(into)
    fixed = {
        "method": method,
        "memory": memory,
        "image_size": image_size,
        "width": width,
        "blocks": blocks,
        "stages": stages,
        "batch": batch,
        "augment": augment,
        "optimiser": optimiser,
        "schedule": schedule,
        "tasks": tasks,
        "seed": seed,
        "hyper": hyper or None,
    }
    trained = trained or TrainedNetwork()
    choices: dict[str, Any] = {name: value for name, value in fixed.items() if value is not None}
    with stdout_reserved(), locked(into) as exists:
        model, size = None, image_size or IMAGE_SIZE
        if exists and (choices or trained.given()):
            names = ", ".join(map(flag, chain(choices.pop("hyper", ()), choices, trained.given())))
            raise UserError(
                f"{shown(into)} already exists, and a model keeps what it was made with: leave out "
                f"{names}, or give --into another file to make a new one"
            )
        if exists:
            model = open_model(into, net=net, device=device)
            check_can_learn(model)
            size = model.metadata.shape[-1]
        else:  # so that a mistake is reported before any image is read
            checked = {"method", "tasks", "hyper", "optimiser", "schedule"}
            protocol(**{name: choices[name] for name in choices.keys() & checked})
            if net is None and trained.given():
                raise UserError(
                    "it describes a trained network: say what builds it, with --net "
                    "package.module:function",
                    option=trained.given()[0],
                )
            if net is not None:
                model = _adopted(net, trained, choices, device, skip_unreadable)
                size = model.metadata.shape[-1]
        with console.reporting() as report:
            samples = gather(
                folder, size=size, held_out=held_out, skip=skip_unreadable, report=report
            )
        for line in samples.unreadable:
            console.complain(f"{line}; left out")
        if model is None:
            choices.pop("image_size", None)  # the samples have it
            model = create(samples, device=device, **_as_in_python(choices))
        with _continued(lesson_file(into)):
            with console.progress(lines=True) as sink:
                keep = checkpoints(into, seconds=checkpoint_seconds, sink=sink)
                learned = teach(
                    model, samples, epochs=epochs, lr=lr, more=more, sink=sink, keep=keep
                )
            before = None
            if exists and learned.learn_again:
                places = names_before(into)  # a killed command may have kept it already
                before = next(p for p in places if not p.exists() or p.samefile(into))
            model.save(into, memory=not without_memory, keep=before)
    if json:
        verdict, kept = None, None if before is None else str(before)
        try:
            with stdout_reserved():
                verdict = examined(model)
        finally:  # the lesson is over, whatever becomes of the check-up
            print_json({"path": str(into), "before": kept, **asdict(learned), "doctor": verdict})
        return
    _print(learned, model, into, without_memory)
    if learned.learn_again:
        lower = f"--lr {model.metadata.lr / 2:g}"
        switches = {"--more": more, "--skip-unreadable": skip_unreadable}
        _print_retry(folder, into, before, net, [lower, *(s for s, on in switches.items() if on)])
    sys.stdout.flush()  # the check-up may take a while, or not end
    with stdout_reserved():
        verdict = examined(model)
    if verdict is not None:
        console.say(f"\n{verdict}")


@contextmanager
def _continued(lesson: Path) -> Iterator[None]:
    """Say how to go on where a lesson that is kept in this file was cut short."""
    try:
        yield
    except (SystemExit, UserError) as error:
        if not lesson.exists():
            raise
        advice = f"repeat the command to go on with the lesson, or remove {shown(lesson)}"
        if isinstance(error.__cause__, OSError):
            raise RunError(f"{error}; make room if the disk is full, and {advice}") from None
        if isinstance(error, SystemExit):
            console.complain(advice)
        raise


def _print_retry(
    folder: Path, into: Path, before: Path | None, net: str | None, flags: list[str]
) -> None:
    """How to learn this again from the model as it was before, if there was one."""
    if before is None:
        console.say(
            f"\nto begin again, remove {shown(into)} and repeat the command, with {flags[0]}"
        )
        return
    command = ["bnt", "learn", str(folder), "--into", str(before)]
    command += [] if net is None else ["--net", net]
    console.say(
        f"\nthe model as it was before is kept in {shown(before)}; to learn again from it, with "
        f"--epochs and --lr as you choose:\n    {shown(shlex.join(command))} {' '.join(flags)}"
    )


def _as_in_python(choices: dict[str, Any]) -> dict[str, Any]:
    """What `create` and `adopt` call these choices."""
    named = dict(choices)
    if "batch" in named:
        named["memory_batch"] = named["batch"]
    if "augment" in named:
        named["augment"] = named["augment"] == "standard"
    return named


def _adopted(
    net: str, trained: TrainedNetwork, choices: dict[str, Any], device: str, skip_unreadable: bool
) -> Model:
    """A model around a trained network, which brings its own shape."""
    shape = [name for name in ("width", "blocks", "stages") if name in choices]
    if shape:
        raise UserError("it is for our own ResNet: leave it out with --net", option=shape[0])
    how = {"augment": True, "image_size": None, **_as_in_python(choices)}
    if "memory" in how:
        how["capacity"] = how.pop("memory")
    return adopted(trained, net=net, device=device, skip_unreadable=skip_unreadable, **how)


def _print(learned: Learned, model: Model, into: Path, without_memory: bool) -> None:
    def listed(names: tuple[str, ...]) -> str:
        return abbreviated([shown(name) for name in names], 6)

    def cells(name: str, score: Score) -> list[object]:
        before, after = ("–" if v is None else f"{v:.1f}" for v in (score.before, score.after))
        return [name, score.images, before, after]

    rows = [
        cells(f"task {k + 1}: {listed(score.classes)}", score)
        for k, score in enumerate(learned.tasks)
    ]
    if len(rows) > 1:
        rows.append(cells("all classes", learned.all))
    if learned.all.after is not None:
        rows += [cells(f"  {shown(score.classes[0])}", score) for score in learned.classes]
    task = model.metadata.taught[-1]
    title = f"learned {listed((*task.classes, *task.more))} from {learned.images} images"
    header = ["accuracy %", "test images", "before", "after"]
    console.show(header, rows, title=title)
    if learned.confused:
        pairs = "; ".join(
            f"{shown(each.label)} for {shown(each.taken_for)} ({each.percent:.0f}%)"
            for each in learned.confused
        )
        console.say(f"\nmost often taken for another: {pairs}")
    if learned.losses:
        first, last = learned.losses[0], learned.losses[-1]
        console.say(f"\ntraining loss {first:.2f} in the first epoch, {last:.2f} in the last")
    for concern in learned.concerns:
        console.say(f"\nWARNING: {concern}")
    memory = None if without_memory else model.learner.memory
    kept = "" if memory is None else f", with a memory of {len(memory)} images"
    console.say(f"\nwritten to {shown(into)}{kept}")
