"""The examination: any network with BatchNorm, batches by group, and out comes a diagnosis.

The network is only read. Flags, buffers and hooks are afterwards what they were, to the bit, also
when something raises half-way.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bntricks.doctor.counterfactual import counterfactuals
from bntricks.doctor.diagnosis import AS_IS, BALANCED, Counterfactual, Diagnosis
from bntricks.doctor.groups import (
    SIZE,
    Group,
    Groups,
    batches_of,
    class_shares,
    halves,
    mixed_by,
    named,
    resized,
    survey,
)
from bntricks.doctor.measure import Corner, corner, measure
from bntricks.doctor.reading import Scores, outputs, placed, untouched
from bntricks.doctor.verdict import judge, remarks
from bntricks.errors import UserError
from bntricks.norm import Moments, layers, moments, recalibrate
from bntricks.streams.files.progress import Report, silent


def diagnose(
    net: nn.Module,
    batches_by_group: Groups,
    *,
    held_out: Groups | None = None,
    scores: Scores = outputs,
    size: int = SIZE,
    report: Report = silent,
) -> Diagnosis:
    """What BatchNorm's running statistics φ cost this network, and whom they follow.

    Groups map a name to batches `(x, y)`, in the order they were learned, the newest last; see
    `docs/doctor.md`. Labels are positions in the network's outputs. One half of every batch
    estimates moments, the other measures accuracy, unless `held_out` brings groups to measure on.
    `scores` is for networks that do not return [N, C] by themselves. About `size` samples are
    passed at once.

    >>> print(diagnose(net, {"old": old_loader, "new": new_loader}))
    """
    _check_network(net)
    groups = named(batches_by_group)
    census = survey(groups)
    estimating, measuring = halves(groups)
    if held_out is not None:
        estimating, measuring = groups, named(held_out)
        _check_held_out(census, survey(measuring))
    place = placed(net)
    with untouched(net):
        corners: dict[str, Corner] = {}
        for group in census:
            report("estimating moments", len(corners), len(census) + 1)
            # Two batches at the least, as their difference tells how sure the moments are.
            rows = min(size, max(2, group.samples // 5))
            batches = resized(batches_of(group.name, estimating[group.name]), rows)
            corners[group.name] = corner(net, map(place, batches))
        report("estimating moments", len(census), len(census) + 1)
        balanced = moments(net, map(place, mixed_by(census, estimating, size)))
        found = measure(net, balanced, corners, class_shares(census))
        sets = {AS_IS: {}, BALANCED: balanced}
        sets |= {f"only {name}": one.whole for name, one in corners.items()}
        tried = counterfactuals(net, measuring, census, sets, scores, size, report)
    unused = [name for name in layers(net) if name not in balanced]
    verdict = judge(census, found, tried[0], tried[1])
    return Diagnosis(census, found, tried, verdict, remarks(census, unused))


def repair(
    net: nn.Module,
    batches_by_group: Groups,
    *,
    scores: Scores = outputs,
    size: int = SIZE,
    report: Report = silent,
) -> tuple[Counterfactual, Counterfactual]:
    """Recalibrate φ on one half of every batch; accuracies before and after, on the other half."""
    _check_layers(net)
    groups = named(batches_by_group)
    census = survey(groups)
    estimating, measuring = halves(groups)
    before = {
        name: Moments(layer.running_mean.clone(), layer.running_var.clone(), 0)  # type: ignore[union-attr]
        for name, layer in layers(net).items()
    }
    report("estimating moments", 0, None)
    recalibrate(net, map(placed(net), mixed_by(census, estimating, size)))
    sets = {AS_IS: before, BALANCED: {}}
    first, second = counterfactuals(net, measuring, census, sets, scores, size, report)
    return first, second


def _check_network(net: nn.Module) -> None:
    _check_layers(net)
    for name, layer in layers(net).items():
        if not all(t.isfinite().all() for t in (layer.running_mean, layer.running_var)):  # type: ignore[union-attr]
            raise UserError(
                f"the running statistics of layer {name!r} are not finite: set them anew with "
                "recalibrate, then diagnose again"
            )


def _check_layers(net: nn.Module) -> None:
    if layers(net):
        return
    kept_none = any(isinstance(module, _BatchNorm) for module in net.modules())
    why = (
        "its BatchNorm layers keep no running statistics (track_running_stats=False)"
        if kept_none
        else "it has no BatchNorm layer"
    )
    raise UserError(f"nothing to examine in this {type(net).__name__}: {why}")


def _check_held_out(census: Sequence[Group], held_out: Sequence[Group]) -> None:
    names, others = ([group.name for group in one] for one in (census, held_out))
    if names != others:
        raise UserError(f"held_out has the groups {others}: give the same as the rest, {names}")
    for group, other in zip(census, held_out, strict=True):
        strange = sorted(set(other.classes) - set(group.classes))
        if strange:
            raise UserError(
                f"held_out group {group.name!r} has class {strange[0]}, which the group's own "
                f"batches lack: they have {list(group.classes)[:10]}"
            )
