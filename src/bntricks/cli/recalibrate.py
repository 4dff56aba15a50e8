"""`bnt recalibrate`: better running statistics for a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bntricks.cli import console
from bntricks.cli.app import Json, Switch, app
from bntricks.cli.doctor import Selection, flags, inputs_of, opened
from bntricks.cli.models import check_target
from bntricks.cli.printing import print_json, stdout_reserved
from bntricks.errors import UserError
from bntricks.files import held, shown


@app.command
def recalibrate(
    model: Path | None = None,
    /,
    *,
    selection: Annotated[Selection, Parameter(name="*")],
    out: Path,
    phi: Literal["best", "balanced"] = "best",
    shrink: Switch = False,
    force: Switch = False,
    anyway: Switch = False,
    json: Json = False,
) -> None:
    """Set a model's statistics to the best that are found.

    The model is written to a new file. Half of the images estimate and choose its running
    statistics, the other half measure the gain. Weights stay as they are.

    Examples:

    - `bnt recalibrate model.safetensors --data photos --out better.safetensors`

    Parameters
    ----------
    model
        A model that bnt saved, unless --net brings one of your own.
    out
        The new file. For a network of your own it has all that --weights has, in the same layout;
        its ending (.safetensors, .pt, .pth, .ckpt) decides about the format.
    phi
        `best`: statistics of data in which every class is equally frequent, or of data with the
        share of the newest classes that is measurably better. `balanced`: the former.
    shrink
        Move the statistics only a share of the way, chosen by accuracy on the half that estimates
        them: for few images.
    force
        Replace the file if it is there already.
    anyway
        Write the file even if classes measurably lose (old ones, those of one group, the newest,
        or all together), if the outputs seem to be in the wrong order, or if the images seem to be
        prepared otherwise than in training.
    json
        Print what was gained as one JSON object.
    """
    from bntricks.doctor import repair
    from bntricks.doctor.shares import AS_IS, BALANCED
    from bntricks.doctor.verdict import losing, order_warning

    check_target(out, inputs=inputs_of(model, selection), force=force)
    with stdout_reserved(), console.reporting() as report:
        net, images, _, normalised, save = opened(model, selection, moves=True)
        repaired = repair(
            net,
            images,
            only_balanced=phi == "balanced",
            shrink=shrink,
            normalised=normalised,
            check_input=normalised is not None,
            size=selection.batch,
            report=report,
        )
    before, after, order = repaired.before, repaired.after, repaired.order
    changes = (
        ("old", before.old, after.old, after.old_difference),
        ("newest", before.newest, after.newest, after.newest_difference),
        ("all", before.all, after.all, after.all_difference),
    )
    if order is not None and not anyway:
        raise UserError(
            f"the outputs seem to be in the wrong order: {order.accuracy:.1f}% of the samples are "
            f"right, and {order.fitting_accuracy:.1f}% would be in another; nothing was written: "
            "bnt diagnose names an order that fits, or add --anyway"
        )
    if (change := repaired.input_change) is not None and not anyway:
        raise UserError(
            "the images seem to be prepared otherwise than in training, and statistics of a wrong "
            "input are wrong for the right one; nothing was written: give the mean and standard "
            f"deviation of its training, such as {flags(change)}, or add --anyway if these are "
            "right and it is to be adapted to such images"
        )
    if after.statistics == AS_IS:
        raise UserError(
            "its own statistics are measurably better than balanced ones, and no others are better "
            "still; nothing was written: keep the file you have, or add --phi balanced"
        )
    lost = losing(after)
    if lost and not anyway:
        raise UserError(
            f"{after.statistics} statistics would cost accuracy: {', '.join(lost)}; nothing was "
            "written: keep the file you have, or add --anyway"
        )
    with held(out, wait=True):
        check_target(out, force=force)
        save(out)
    if json:
        gained = {name: asdict(difference) for name, _, _, difference in changes}
        found = {"statistics": after.statistics, "share": repaired.share, "path": str(out)}
        print_json({"gained": gained, **found})
        return
    header = ["classes", "before, %", "after, %", "points", "95% interval"]
    rows = [
        [name, f"{was:.1f}", f"{now:.1f}", f"{difference.points:+.1f}", difference.interval]
        for name, was, now, difference in changes
    ]
    console.show(header, rows)
    if after.statistics != BALANCED:
        console.say(
            f"φ is of data with {after.statistics} samples: measurably better than balanced"
        )
    if shrink:
        console.say(f"φ is {100 * repaired.share:.0f}% of the way to these statistics")
    if not after.all_difference.sign:
        console.say("no measurable change over all classes")
    if order is not None:
        console.say(order_warning(order))
    if lost:
        console.say(f"measurably worse: {', '.join(lost)}")
    console.say(f"written to {shown(out)}")
