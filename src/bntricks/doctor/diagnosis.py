"""The diagnosis of any network with BatchNorm from batches by group: what φ costs it.

`diagnose` only reads the network: flags, buffers and hooks are restored to the bit, even after an
error. A diagnosis consists of plain values: accuracies in per cent, differences in points, shares
between 0 and 1.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn

from bntricks.doctor.accuracy import (
    Counterfactual,
    Scores,
    Trial,
    counterfactual,
    inputs_for,
    measure,
    network_outputs,
)
from bntricks.doctor.balanced import balanced_batches
from bntricks.doctor.gap import Remedy, in_words, remedy, remedy_trials
from bntricks.doctor.groups import (
    BATCH_SIZE,
    Batches,
    BatchesByGroup,
    Group,
    checked_batches,
    class_shares,
    first_half,
    halves,
    rebatched,
    survey,
    variety,
    with_text_names,
)
from bntricks.doctor.layers import GroupMoments, Layer, group_moments, measure_layers
from bntricks.doctor.preprocessing import InputChange, Normalisation, explaining_change
from bntricks.doctor.shares import AS_IS, BALANCED, chosen, other_shares, share_name
from bntricks.doctor.verdict import Verdict, fitting_order, judge, order_warning, remarks
from bntricks.errors import UserError
from bntricks.norm import Statistics, check_layers, layers, moments, phi
from bntricks.streams.files.progress import OnProgress, silent
from bntricks.system.devices import forked_generators


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings of the doctor; `print` shows the verdict."""

    groups: tuple[Group, ...]
    layers: tuple[Layer, ...]
    """In the order of a pass."""
    counterfactuals: tuple[Counterfactual, ...]
    """φ as it is, balanced, and with more and more samples of the newest group."""
    best: Counterfactual
    """The one of these that was chosen on the samples that estimate moments: the balanced one,
    unless another is measurably more accurate there. Its accuracy is that on the other samples."""
    verdict: Verdict
    notes: tuple[str, ...]
    fitting_order: tuple[int, ...] | None = None
    """The label that each output fits, if they seem to be in the wrong order."""
    remedies: tuple[Remedy, ...] = ()
    """What closes the gap between newest and old classes: φ, the head, or both. Empty if the head
    cannot be examined by itself."""
    warning: str | None = None
    """A warning about outputs that seem to be in the wrong order, which casts doubt on the rest."""
    input_change: InputChange | None = None
    """The change of the input that explains φ, if it seems to be prepared otherwise than in
    training. The rest of the diagnosis is of no use then."""

    @property
    def as_is(self) -> Counterfactual:
        return self.counterfactuals[0]

    @property
    def balanced(self) -> Counterfactual:
        return self.counterfactuals[1]

    def __str__(self) -> str:
        points = (f"- {point}" for point in (*self.verdict.evidence, *self.notes))
        warning = [] if self.warning is None else [self.warning]
        return "\n".join([*warning, self.verdict.headline, *points, self.verdict.advice])

    def to_json(self) -> str:
        """Return one JSON object on one line, without NaN."""
        values = asdict(self)
        for row, layer in zip(values["layers"], self.layers, strict=True):
            row["distance"] = layer.distance
        return json.dumps(values, allow_nan=False)

    def write_page(
        self, path: Path | str, title: str = "BatchNorm diagnosis", command: str | None = None
    ) -> Path:
        """Write one HTML file with the verdict, charts by depth and all numbers."""
        from bntricks.doctor.page import write_page

        return write_page(self, Path(path), title, command)


def diagnose(
    net: nn.Module,
    batches_by_group: BatchesByGroup,
    *,
    held_out: BatchesByGroup | None = None,
    scores: Scores = network_outputs,
    normalised: Normalisation | None = None,
    check_input: bool = True,
    size: int = BATCH_SIZE,
    report: OnProgress = silent,
) -> Diagnosis:
    """Measure what BatchNorm's running statistics φ cost this network, and whom they follow.

    Groups map a name to batches `(x, y)`, in the order they were learned, the newest last; see
    `docs/doctor.md`. Labels are positions in the network's outputs. Moments are estimated on one
    half of every class and accuracy is measured on the other, or on `held_out` groups. `scores` is
    for networks that do not return [N, C] themselves. `normalised` are the mean and the standard
    deviation by which images became `x`, to name the right ones if these are wrong; leave out
    `check_input` where they cannot be. About `size` samples are passed at once.

    >>> print(diagnose(net, {"old": old_loader, "new": new_loader}))
    """
    check_layers(net)
    if problem := unsound(net):
        raise UserError(f"{problem}: reset them with recalibrate, then diagnose again")
    how = (held_out, scores, normalised, check_input, size, report)
    return examine(net, batches_by_group, *how)[0]


def examine(
    net: nn.Module,
    batches_by_group: BatchesByGroup,
    held_out: BatchesByGroup | None,
    scores: Scores,
    normalised: Normalisation | None,
    check_input: bool,
    size: int,
    report: OnProgress,
) -> tuple[Diagnosis, dict[str, Statistics]]:
    """Diagnose a network, and return the statistics that were tried too, by their names."""
    batches_by_group = with_text_names(batches_by_group)
    groups = survey(batches_by_group)
    estimating_groups = tuple(map(first_half, groups))
    estimating, measuring = halves(groups, batches_by_group)
    if held_out is not None:
        estimating_groups, estimating = groups, batches_by_group
        measuring = with_text_names(held_out)
        _check_held_out(groups, survey(measuring))
    prepare = inputs_for(net)
    with unchanged(net):
        by_group: dict[str, GroupMoments] = {}
        varieties: list[float] = []
        for group in groups:
            report("estimating moments", len(by_group), len(groups) + 1)
            by_group[group.name], share = _moments_of_group(
                net, group, estimating[group.name], size
            )
            varieties.append(share)
        report("estimating moments", len(groups), len(groups) + 1)

        def joint(newest: Fraction | None = None) -> Iterator[Tensor]:
            batches = balanced_batches(estimating_groups, estimating, size, newest=newest)
            return map(prepare, batches)

        balanced = moments(net, joint())
        measured = measure_layers(net, balanced, by_group, class_shares(groups))
        own: Statistics = {}
        phis = {AS_IS: own, BALANCED: balanced}
        phis |= {share_name(s): moments(net, joint(s)) for s in other_shares(groups)}
        cures = remedy_trials(net, groups, estimating, own, balanced, scores, size)
        change = explaining_change(net, measured, joint, normalised) if check_input else None
        trials = [*map(Trial, phis.values()), *cures.values()]
        if change is not None:
            trials.append(Trial(own, change=change))
        best = chosen(phis, net, groups, estimating, scores, size, report)
        tallies = measure(net, groups, measuring, trials, scores, size, report)
    groups = tuple(replace(g, variety=v) for g, v in zip(groups, varieties, strict=True))
    unused = [name for name in layers(net) if name not in balanced]
    tried = tuple(counterfactual(row, name, groups, tallies) for row, name in enumerate(phis))
    remedies = tuple(
        remedy(row, name, groups, tallies) for row, name in enumerate(cures, len(phis))
    )
    by_name = dict(zip(phis, tried, strict=True))
    verdict = judge(groups, measured, tried[0], tried[1], by_name[best])
    if remedies:
        verdict = replace(verdict, evidence=(*verdict.evidence, in_words(remedies)))
    if change is not None:
        changed = counterfactual(len(trials) - 1, "as it is, other input", groups, tallies)
        if changed.all_difference.sign > 0:
            verdict = change.verdict(measured[0], tried[0], changed)
        else:
            change = None
    order = fitting_order(tally.pairs[0] for tally in tallies)
    labels, warning = (order.labels, order_warning(order)) if order else (None, None)
    notes = remarks(groups, unused)
    diagnosis = Diagnosis(
        groups, measured, tried, by_name[best], verdict, notes, labels, remedies, warning, change
    )
    return diagnosis, phis


@contextmanager
def unchanged(net: nn.Module) -> Iterator[None]:
    """Restore buffers and the global generators afterwards. The contexts of `norm` restore flags
    and hooks; a user's forward pass may also count its calls or rebind a buffer."""
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in net.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    with forked_generators(t.device for t in chain(net.parameters(), net.buffers())):
        try:
            yield
        finally:
            for module, name, buffer, content in buffers:
                module._buffers[name] = buffer
                if not torch.equal(buffer, content):
                    with torch.no_grad():
                        buffer.copy_(content)


def _moments_of_group(
    net: nn.Module, group: Group, batches: Batches, size: int
) -> tuple[GroupMoments, float]:
    """Measure a group's moments, and the variety of the batches."""
    # At least two batches: their difference shows how certain the moments are.
    rows = min(size, max(2, group.samples // 5))
    prepare, varieties = inputs_for(net), []

    def inputs() -> Iterator[Tensor]:
        for x, y in rebatched(checked_batches(group.name, batches), rows):
            varieties.append(variety(y, group))
            yield prepare(x)

    own = group_moments(net, inputs())
    return own, mean(varieties)


def unsound(net: nn.Module) -> str | None:
    """Name a layer whose running statistics cannot be, if there is one."""
    for name, values in phi(net).items():
        negative = bool((values["var"] < 0).any())
        if negative or not all(value.isfinite().all() for value in values.values()):
            kind = "impossible (a negative variance)" if negative else "not finite"
            return f"the running statistics of layer {name!r} are {kind}"
    return None


def _check_held_out(groups: Sequence[Group], held_out: Sequence[Group]) -> None:
    names, held_out_names = [g.name for g in groups], [g.name for g in held_out]
    if names != held_out_names:
        raise UserError(
            f"held_out has the groups {held_out_names}: give the same as the rest, {names}"
        )
    for group, measured in zip(groups, held_out, strict=True):
        unknown = sorted(set(measured.classes) - set(group.classes))
        if unknown:
            raise UserError(
                f"held_out group {group.name!r} has class {unknown[0]}, which the group's own "
                f"batches lack: they have {list(group.classes)[:10]}"
            )
