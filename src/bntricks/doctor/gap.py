"""Is it φ or the head that makes old classes lose to the newest ones? Each is corrected by itself,
and then both: what closes the gap explains it.

φ is replaced by balanced statistics. The head is corrected in two ways that change no weight: its
new rows are scaled to the mean length of the old ones (WA), or each logit is reduced by the log of
its class's mean probability on balanced data, the prior that the network has learned. That mean is
taken on the half of the samples that accuracy is not measured on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bntricks.doctor.accuracy import (
    Difference,
    Scores,
    Tally,
    Trial,
    check_labels,
    in_parts,
    inputs_for,
    outputs_with,
    paired_difference,
)
from bntricks.doctor.groups import BatchesByGroup, Group, checked_batches, class_shares
from bntricks.networks.head import AUXILIARY
from bntricks.norm import Statistics, mode

Rescore = Callable[[Tensor], Tensor]
Head = nn.Linear | nn.Conv2d

AS_IT_IS = "as it is"
PHI, HEAD, PRIOR = "balanced φ", "aligned head", "even prior"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A correction and the gap it leaves: accuracy on the newest classes less accuracy on the old
    ones, in points, with the same weight for every class."""

    name: str
    gap: float
    closed: Difference
    """The reduction of the gap of the network as it is."""
    all_difference: Difference
    """The change of accuracy over all classes."""


def remedy_trials(
    net: nn.Module,
    groups: Sequence[Group],
    estimating: BatchesByGroup,
    own: Statistics,
    balanced: Statistics,
    scores: Scores,
    size: int,
) -> dict[str, Trial]:
    """List the trials of the network as it is and with every remedy. Empty if groups share classes,
    or if scores are not the outputs of the network's last linear layer or 1×1 convolution."""
    classes = [label for group in groups for label in group.classes]
    head = _head(net)
    shared = len(classes) > len(set(classes))
    if shared or head is None or not _scored_by(head, net, estimating, scores):
        return {}
    check_labels(groups, len(head.weight))
    aligned = _aligned(head, groups)

    def even(phi: Statistics) -> Rescore:
        return _even_prior(net, groups, estimating, phi, scores, size)

    return {
        AS_IT_IS: Trial(own),
        PHI: Trial(balanced),
        HEAD: Trial(own, aligned),
        PRIOR: Trial(own, even(own)),
        f"{PHI} and {HEAD}": Trial(balanced, aligned),
        f"{PHI} and {PRIOR}": Trial(balanced, even(balanced)),
    }


def remedy(row: int, name: str, groups: Sequence[Group], tallies: Sequence[Tally]) -> Remedy:
    """Summarise the remedy in this row of the tallies, under this name."""
    shares = np.array(class_shares(groups))
    gap_weights = np.append(-shares[:-1] / shares[:-1].sum(), 1.0)
    accuracy = np.array([tally.accuracy(row) for tally in tallies])
    return Remedy(
        name=name,
        gap=float(gap_weights @ accuracy),
        closed=paired_difference(-gap_weights, tallies, row),
        all_difference=paired_difference(shares, tallies, row),
    )


def in_words(remedies: Sequence[Remedy]) -> str:
    """Say in a sentence how much of the gap each remedy closes."""
    gap, by_name = remedies[0].gap, {each.name: each for each in remedies}
    parts = [_closing(by_name[name]) for name in (PHI, HEAD, PRIOR)]
    if gap <= 0:
        return f"The old classes do not lose to the newest ones: the gap is {gap:.1f} points."
    return (
        f"The newest classes are {gap:.1f} points ahead of the old ones. What closes this gap, by "
        f"itself, in points: {'; '.join(parts)}."
    )


def _closing(remedy: Remedy) -> str:
    closed = f"{remedy.name} {remedy.closed.points:.1f} ({remedy.closed.interval})"
    reversed_gap = round(remedy.gap, 1)
    return f"{closed}, which reverses it to {reversed_gap:.1f}" if reversed_gap < 0 else closed


def _head(net: nn.Module) -> Head | None:
    """Find the layer that may be the classifier: the last linear one, or 1×1 convolution."""
    for name, module in reversed(list(net.named_modules())):
        if not AUXILIARY.search(name) and (
            isinstance(module, nn.Linear)
            or (isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1))
        ):
            return module
    return None


@torch.no_grad()
def _scored_by(head: Head, net: nn.Module, batches: BatchesByGroup, scores: Scores) -> bool:
    """Whether the network's scores are what this layer returns."""
    name = next(iter(batches))
    x, _ = next(checked_batches(name, batches[name]))
    returned: list[Tensor] = []
    handle = head.register_forward_hook(lambda _, inputs, output: returned.append(output))
    try:
        with mode(net, training=False):
            outputs = scores(net, inputs_for(net)(x))
        return torch.allclose(returned[-1].flatten(1), outputs, atol=1e-4)
    except (IndexError, RuntimeError, TypeError):
        return False
    finally:
        handle.remove()


@torch.no_grad()
def _aligned(linear: Head, groups: Sequence[Group]) -> Rescore:
    """Rescore logits as if the head's new rows were as long, on average, as its old ones."""
    length = torch.linalg.vector_norm(linear.weight.float().flatten(1), dim=1)
    new = list(groups[-1].classes)
    old = [label for group in groups[:-1] for label in group.classes]
    scale = torch.ones_like(length)
    scale[new] = length[old].mean() / length[new].mean()
    bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.float().clone()
    return lambda logits: torch.lerp(bias, logits, scale)


def _even_prior(
    net: nn.Module,
    groups: Sequence[Group],
    estimating: BatchesByGroup,
    phi: Statistics,
    scores: Scores,
    size: int,
) -> Rescore:
    """Rescore logits by subtracting the log of each class's mean probability on balanced data."""
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = {}
    for group in groups:
        for x, y in in_parts(estimating, group.name, size):
            p = outputs_with(phi, net, x, scores).float().softmax(1).cpu()
            for label in sorted(set(y.tolist())):
                own = p[y.cpu() == label]
                sums[label] = sums.get(label, 0) + own.double().sum(0)
                counts[label] = counts.get(label, 0) + len(own)
    mean = torch.stack([sums[label] / counts[label] for label in sums]).mean(0)
    known = [label for group in groups for label in group.classes]
    log_mean = mean.clamp(min=1e-12).log()
    adjustment = torch.zeros_like(log_mean)
    adjustment[known] = log_mean[known].mean() - log_mean[known]
    adjustment = adjustment.float()
    return lambda logits: logits + adjustment.to(logits.device)
