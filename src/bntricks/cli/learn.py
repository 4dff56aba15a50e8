"""`bnt learn`: a folder of images becomes a model, and another one extends it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli import console
from bntricks.cli.adopt import TrainedNetwork, adopted, in_python, pretrained
from bntricks.cli.app import (
    Count,
    Device,
    Imports,
    In,
    Json,
    Seconds,
    Switch,
    Threads,
    app,
    flag,
    import_all,
    refuse_misspelt,
)
from bntricks.cli.lesson import print_lesson
from bntricks.cli.models import (
    Keep,
    SkipUnreadable,
    check_target,
    examined,
    kept_models,
    locked,
    open_to_change,
    prepare,
    read_images,
    recorded_command,
)
from bntricks.cli.printing import print_json, stdout_reserved
from bntricks.errors import RunError, UserError
from bntricks.files import quoted, shown
from bntricks.model.options import IMAGE_SIZE, KEEP, NewModel
from bntricks.system.stopping import postponed


@app.command
def learn(
    folder: Path,
    /,
    *,
    into: Path,
    epochs: Annotated[Count | None, In.training] = None,
    lr: Annotated[float | None, Parameter(validator=Number(gt=0)), In.training] = None,
    held_out: Annotated[float, Parameter(validator=Number(gte=0, lt=1)), In.rare_training] = 0.2,
    new: Annotated[NewModel, Parameter(name="*")] = NewModel(),  # noqa: B008 (frozen)
    net: Annotated[str | None, In.trained] = None,
    trained: Annotated[TrainedNetwork, Parameter(name="*")] = TrainedNetwork(),  # noqa: B008
    more: Annotated[Switch, In.training] = False,
    tune: Annotated[Switch, In.training] = False,
    tune_from: Annotated[str | None, In.rare_training] = None,
    skip_unreadable: Annotated[SkipUnreadable, In.rare_training] = False,
    without_memory: Annotated[Switch, In.rare_output] = False,
    imports: Annotated[Imports, In.rare_training] = (),
    device: Annotated[Device, In.computed] = "cpu",
    threads: Annotated[Threads, In.computed] = 1,
    checkpoint_seconds: Annotated[Seconds, In.rare_output] = 120.0,
    keep: Annotated[Keep, In.rare_output] = KEEP,
    json: Annotated[Json, In.output] = False,
    **hyper: Annotated[float, In.new_model],
) -> None:
    """Teach a model the classes of a folder, or make a model.

    If there is no model yet, one is made. The folder has a folder of images for each class. Images
    may be of any size and kind: their centre square is taken, upright. Hidden files are left out,
    nested folders are not. The model is one file, which is replaced when all is learned, and stays
    as it was if that fails. A lesson that was interrupted, for whatever reason, continues when the
    command is repeated. Earlier models are kept beside it, for `bnt rollback`. If the lesson cost
    old classes accuracy, the model stays as it was, and what was learned is put beside it, for
    `bnt accept`; exit code 1.

    A model usually begins with a pretrained network, --backbone: its features of each image are
    computed once and no network is trained. Without one, a small network is trained from scratch.

    Of each class some images are held out and never trained on: they are kept in the file, so
    that accuracy on old classes can be measured when their folder is gone.

    Examples:

    - `bnt learn photos/animals --into model.safetensors --backbone efficientnet-lite0`
    - `bnt learn photos/more --into model.safetensors`
    - `bnt learn scans --into small.safetensors --image-size 64`
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
        Learning rate of this lesson, the highest one of its schedule [default: the model's, 0.003,
        or 0.03 for sgd; less for a short lesson of a model that has learned before].
    held_out
        Share of each class kept for testing, 100 images at most; 0 to test nothing.
    net
        A model around a network of your own: what builds it, as `package.module:function`. It is
        imported and run.
    more
        Classes of the folder may be known already: continue training them on these images. Those
        that the model has already are left out.
    tune
        Train the trunk of a backbone as well, by BN Tricks at a low rate (--lr, 0.0003; --epochs,
        10). It serves only if it is better on held-out images than the frozen one. Needs a model
        made with --keep-images.
    tune_from
        The same for a part of the trunk, from the module of this name on, such as `layer4`.
    without_memory
        Leave the memory and the test images out of the file: it holds no images and predicts the
        same, but cannot be taught more.
    checkpoint_seconds
        Time between checkpoints of the lesson, in seconds.
    json
        Print what was learned as one JSON object.
    hyper
        The method's own hyper-parameters, by the names `bnt methods` shows.
    """
    from bntricks.methods import entries, find
    from bntricks.model.checks import check_can_learn
    from bntricks.model.create import create, protocol
    from bntricks.model.earlier import put_beside
    from bntricks.model.file import lesson_file
    from bntricks.model.learn import teach
    from bntricks.model.samples import gather
    from bntricks.model.unfinished import checkpoints

    import_all(imports)
    if new.method in entries():
        refuse_misspelt(hyper.keys() - find(new.method).hyper().keys(), "learn")
    new = new.model_copy(update={"hyper": hyper} if hyper else {})
    prepare(device, threads)
    check_target(into)
    with ExitStack() as until_told:
        with stdout_reserved(), locked(into) as exists:
            model = None
            if exists:
                if choices := [*hyper, *(n for n in new.given() if n != "hyper"), *trained.given()]:
                    raise UserError(
                        f"{shown(into)} already exists, and a model keeps what it was made with: "
                        f"leave out {', '.join(map(flag, choices))}, or give --into another file "
                        "to make a new one"
                    )
                model = open_to_change(into, net=net, keep=keep, device=device)
                check_can_learn(model)
            else:
                protocol(new)  # so that a mistake is reported before any image is read
                if trained.backbone is not None:
                    if net is not None:
                        raise UserError(
                            "a model has one network: leave out --backbone, or this", option="net"
                        )
                    model = pretrained(trained, new, device)
                elif net is not None:
                    model = adopted(net, trained, new, device, skip_unreadable)
                elif trained.given():
                    raise UserError(
                        "it describes a trained network: say which, with --backbone NAME or --net "
                        "package.module:function",
                        option=trained.given()[0],
                    )
            if model is None or model.frozen is None:
                if tune or tune_from:
                    raise UserError(
                        "it is for a model on a --backbone: this one is trained anyway",
                        option="tune",
                    )
                size = model.metadata.square if model else new.image_size or IMAGE_SIZE
                samples = read_images(
                    gather, folder, size=size, held_out=held_out, skip=skip_unreadable
                )
                if model is None:
                    model = create(samples, device=device, **in_python(new))
            with _continued(lesson_file(into)):
                with console.progress(lines=True) as sink:
                    if model.frozen is not None:
                        learned = model.learn(
                            folder,
                            epochs=epochs,
                            lr=lr,
                            held_out=held_out,
                            more=more,
                            tune=tune,
                            tune_from=tune_from,
                            skip_unreadable=skip_unreadable,
                            sink=sink,
                        )
                        for line in learned.unreadable:
                            console.complain(f"{line}; left out")
                    else:
                        lesson = checkpoints(into, seconds=checkpoint_seconds, sink=sink)
                        learned = teach(
                            model, samples, epochs=epochs, lr=lr, more=more, sink=sink, keep=lesson
                        )
                refused = learned.gate.refused if exists and learned.gate is not None else None
                event = "learned" if refused is None else "refused"
                model.metadata = model.metadata.amended(event=event, command=recorded_command())
                until_told.enter_context(postponed())  # a request to stop, once this is saved
                if refused is None:
                    written = into
                    model.save(into, memory=not without_memory, keep=keep)
                else:
                    written = put_beside(model, into, memory=not without_memory)
        if json:
            verdict = None
            try:
                until_told.close()
                with stdout_reserved():
                    verdict = examined(model)
            finally:  # the lesson is over, whatever becomes of the check-up
                print_json(
                    {
                        "path": str(written),
                        "refused": refused,
                        **asdict(learned),
                        "temperature": model.metadata.temperature,
                        "doctor": verdict,
                    }
                )
        else:
            print_lesson(learned, model, written, without_memory)
            if exists and refused is None:
                console.say(kept_models(into))
            sys.stdout.flush()  # the check-up may take a while, or not end
            until_told.close()
            with stdout_reserved():
                verdict = examined(model)
            if verdict is not None:
                console.say(f"\n{verdict}")
    if refused is not None:
        sys.stdout.flush()
        raise RunError(
            f"{shown(into)} stays as it was, for the lesson would cost it ({refused}); the result "
            f"is kept as {shown(written)}: bnt accept {quoted(into)} puts it in its place"
        )


@contextmanager
def _continued(lesson: Path) -> Iterator[None]:
    """Say how to continue a lesson that was cut short and is kept in this file."""
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
