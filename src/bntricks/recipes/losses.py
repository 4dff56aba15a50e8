"""The losses of the recipes: functions of a `Pass`, with its logits [B, C] and its batch."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bntricks.batch import Batch
from bntricks.recipes.language import Loss, Pass
from bntricks.system.devices import to_device

__all__ = ["ace", "ce", "ce_seen", "fdr", "icarl", "kd", "las", "loss", "lwf"]


def loss(
    name: str, *, features: bool = False, each_class_once: bool = False, blends: bool = False
) -> Callable[[Callable[[Pass], Tensor]], Loss]:
    """Name a loss function, so that recipes can apply it to batch symbols. With `features`, it can
    read what the head saw. `each_class_once` says that it is wrong for samples of other tasks'
    classes, `blends` that it can be applied to a blended batch, whose samples also have a `partner`
    label."""
    return lambda function: Loss(name, function, features, each_class_once, blends)


@loss("CE", blends=True)
def ce(p: Pass) -> Tensor:
    """Softmax cross-entropy over all C outputs, seen or not: a (weighted) mean over the batch."""
    batch, device = p.batch, p.logits.device
    y = to_device(batch.y, device)
    if batch.weight is None and batch.partner is None:
        return F.cross_entropy(p.logits, y)
    losses = F.cross_entropy(p.logits, y, reduction="none")
    if batch.partner is not None and batch.share is not None:
        other = F.cross_entropy(p.logits, to_device(batch.partner, device), reduction="none")
        losses = torch.lerp(other, losses, to_device(batch.share, device))
    if batch.weight is None:
        return losses.mean()
    weight = to_device(batch.weight, device)
    return (losses * weight).sum() / weight.sum()


@loss("CE_seen", each_class_once=True)
def ce_seen(p: Pass) -> Tensor:
    """Cross-entropy among the classes seen so far (LwF)."""
    seen = set(p.lesson.seen)
    rest = [c for c in range(p.logits.shape[1]) if c not in seen]
    hidden = p.logits.index_fill(1, _columns(rest, p.logits), -torch.inf)
    return F.cross_entropy(hidden, to_device(p.batch.y, p.logits.device))


@loss("ACE")
def ace(p: Pass) -> Tensor:
    """Cross-entropy without the old classes that the batch lacks: it pushes none down (ER-ACE)."""
    if not p.lesson.old:
        return ce.of(p)
    absent = set(p.lesson.seen) - set(_labels(p).tolist())
    hidden = p.logits.index_fill(1, _columns(sorted(absent), p.logits), -torch.inf)
    return F.cross_entropy(hidden, to_device(p.batch.y, p.logits.device))


@loss("LAS")
def las(p: Pass) -> Tensor:
    """Cross-entropy of logits plus the log of each class's count in the batch (ER-LAS)."""
    counts = torch.bincount(_labels(p), minlength=p.logits.shape[1])
    log_counts = to_device(counts.float().log(), p.logits.device)
    return F.cross_entropy(p.logits + log_counts, to_device(p.batch.y, p.logits.device))


@loss("KD")
def kd(p: Pass) -> Tensor:
    """Mean squared distance to the logits stored with the samples (DER, DER++), over the outputs
    that each was stored with: the head may have grown since."""
    stored = _beside(p.batch)
    known = ~stored.isnan()
    # Exactly 1 for a sample with all outputs; no count waits for the device.
    scale = (known.shape[1] / known.sum(1, keepdim=True)).sqrt()
    now = torch.where(known, p.logits[:, : stored.shape[1]], 0.0)
    return F.mse_loss(scale * now, scale * torch.where(known, stored, 0.0))


@loss("LwF", each_class_once=True)
def lwf(p: Pass) -> Tensor:
    """Cross-entropy to recorded outputs among the old classes, at temperature 2; 0 in task 1."""
    if not p.lesson.old:
        return p.logits.new_zeros(())
    old = _columns(p.lesson.old, p.logits)
    target = F.softmax(_beside(p.batch)[:, old] / 2, 1)
    return F.cross_entropy(p.logits[:, old] / 2, target)


@loss("FDR")
def fdr(p: Pass) -> Tensor:
    """Mean distance, not squared, between class probabilities now and as stored."""
    stored = _beside(p.batch)
    unknown = stored.isnan()  # outputs that the head did not have yet
    now = F.softmax(p.logits[:, : stored.shape[1]].masked_fill(unknown, -torch.inf), 1)
    then = F.softmax(stored.masked_fill(unknown, -torch.inf), 1)
    distances: Tensor = torch.linalg.vector_norm(now - then, dim=1)
    return distances.mean()


@loss("iCaRL", each_class_once=True)
def icarl(p: Pass) -> Tensor:
    """Binary cross-entropy over the classes seen. Targets are the previous network's sigmoids for
    old classes, whatever the sample's label, and one-hot for new ones."""
    new = _columns(p.lesson.new, p.logits)
    y = to_device(p.batch.y, p.logits.device)
    target = (y[:, None] == new).to(p.logits.dtype)
    if p.lesson.old:
        old = _columns(p.lesson.old, p.logits)
        target = torch.cat([_beside(p.batch)[:, old].sigmoid(), target], 1)
    seen = p.logits[:, _columns(p.lesson.seen, p.logits)]
    return F.binary_cross_entropy_with_logits(seen, target)


def _labels(p: Pass) -> Tensor:
    return p.batch.y if p.labels is None else p.labels


def _columns(classes: Sequence[int], logits: Tensor) -> Tensor:
    return to_device(torch.tensor(list(classes), dtype=torch.int64), logits.device)


def _beside(batch: Batch) -> Tensor:
    if batch.logits is None:
        raise ValueError(
            "this loss compares with outputs recorded or stored beside the samples, and there are "
            "none here: LwF needs observe(x, y, ids=...), and a memory must keep logits"
        )
    return batch.logits
