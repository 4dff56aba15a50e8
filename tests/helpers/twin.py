"""A straight-line twin of the learner, written from the formulas alone.

It knows nothing of recipes, losses or norm.py: its network is explicit matrix arithmetic, its
BatchNorm is the paper's Eqn. 2 and 3, its memory is a list, its gradient step is θ − γ∇L. A method
is a function `step(twin, bt)`, and where it needs them `begin(twin, task)` and `end(twin, task)`,
with all samples of the task. `side_by_side` runs it beside the learner.
"""

from copy import copy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bntricks.methods import make
from bntricks.seeds import Generators
from bntricks.training.learner import Learner

CLASSES, INPUTS, HIDDEN, LR = 6, 5, 8, 0.1
CAPACITY = 13  # no multiple of the number of tasks or of classes
STEPS, BATCH, MEMORY_BATCH = 3, 7, 6
EVEN = ((0, 1), (2, 3), (4, 5))
UNEVEN = ((4, 1), (0, 5, 2), (3,))


class Sample(NamedTuple):
    x: Tensor
    y: Tensor
    task: int = 0
    logits: Tensor | None = None
    id: int = 0


def network():
    """The network the learner trains: two BatchNorm layers."""
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(INPUTS, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )


class Past:
    """A memory M that is a list, and the classes so far."""

    def __init__(self, generators, *, capacity=CAPACITY, memory_batch=MEMORY_BATCH):
        self.insertion = generators.memory_insertion.clone_state()
        self.sampling = generators.memory_sampling.clone_state()
        self.capacity, self.memory_batch = capacity, memory_batch
        self.slots, self.offered = [], 0
        self.t, self.old, self.new, self.size = 0, [], [], 0

    def arrive(self, classes, size):
        """Task t+1 with its classes and |T_t| samples."""
        self.t, self.old, self.new, self.size = self.t + 1, self.seen, list(classes), size

    @property
    def seen(self):
        return self.old + self.new

    def draw(self, before=None):
        """Up to `memory_batch` stored samples, of tasks before `before`."""
        pool = [s for s in self.slots if before is None or s.task < before]
        chosen = torch.randperm(len(pool), generator=self.sampling) if pool else []
        return [pool[i] for i in chosen[: self.memory_batch]]

    def balanced(self, current, memory):
        """Spec A1, count-aware."""
        if not memory or not self.old:
            return current + memory
        new = sum(int(s.y) in self.new for s in memory)
        k = int((len(memory) - new) * len(self.new) / len(self.old) + 0.5) - new
        return memory + current[: min(max(k, 0), len(current))]

    def reservoir(self, batch, logits=None):
        """Vitter's algorithm R, one sample at a time; beside each sample its logits, if given."""
        shares = torch.rand(len(batch), generator=self.insertion, dtype=torch.float64).tolist()
        for row, (sample, share) in enumerate(zip(batch, shares, strict=True)):
            item = sample._replace(
                task=self.t, logits=None if logits is None else logits[row].detach()
            )
            if self.offered < self.capacity:
                self.slots.append(item)
            else:
                slot = int(share * (self.offered + 1))
                if slot < self.capacity:
                    self.slots[slot] = item
            self.offered += 1


class Twin(Past):
    """Parameters θ and statistics φ in plain sight, beside the past."""

    def __init__(self, net, generators, **memory):
        super().__init__(generators, **memory)
        self.theta = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
        self.phi = {n: b.clone() for n, b in net.named_buffers()}
        self.replay_augmentation = generators.replay_augmentation.clone_state()
        self.averaging = generators.averaging.clone_state()
        self.teacher = self.recorded = None

    def forward(self, x, track):
        """h(x) with batch statistics; each BatchNorm moves its average if `track`."""
        theta, phi = self.theta, self.phi
        for linear, norm in (("0", "1"), ("3", "4")):
            x = x @ theta[f"{linear}.weight"].T + theta[f"{linear}.bias"]
            mean, var = x.mean(0), x.var(0, correction=0)
            if track:
                n = len(x)
                phi[f"{norm}.running_mean"] = (
                    0.9 * phi[f"{norm}.running_mean"] + 0.1 * mean.detach()
                )
                phi[f"{norm}.running_var"] = 0.9 * phi[
                    f"{norm}.running_var"
                ] + 0.1 * var.detach() * n / (n - 1)
                phi[f"{norm}.num_batches_tracked"] = phi[f"{norm}.num_batches_tracked"] + 1
            x = theta[f"{norm}.weight"] * (x - mean) / (var + 1e-5).sqrt() + theta[f"{norm}.bias"]
            x = x.clamp(min=0)
        return x @ theta["6.weight"].T + theta["6.bias"]

    def features(self, x):
        """f(x) in evaluation mode: φ normalises."""
        theta, phi = self.theta, self.phi
        for linear, norm in (("0", "1"), ("3", "4")):
            x = x @ theta[f"{linear}.weight"].T + theta[f"{linear}.bias"]
            mean, var = phi[f"{norm}.running_mean"], phi[f"{norm}.running_var"]
            x = theta[f"{norm}.weight"] * (x - mean) / (var + 1e-5).sqrt() + theta[f"{norm}.bias"]
            x = x.clamp(min=0)
        return x

    def evaluate(self, x):
        """h(x) in evaluation mode."""
        return self.features(x) @ self.theta["6.weight"].T + self.theta["6.bias"]

    def apart(self):
        """The network as it is now, which from here on goes its own way."""
        other = copy(self)
        other.theta = {n: p.detach().clone() for n, p in self.theta.items()}
        other.phi = {n: b.clone() for n, b in self.phi.items()}
        return other

    def frozen(self):
        """The network as it is now, in evaluation mode: a function x -> h(x)."""
        return self.apart().evaluate

    def ce(self, batch, track):
        """Mean cross-entropy of a batch over all C logits."""
        x, y = stacked(batch)
        return F.nll_loss(F.log_softmax(self.forward(x, track), 1), y)

    def squares(self):
        """‖θ‖², over all parameters."""
        return sum((p**2).sum() for p in self.theta.values())

    def track(self, batch):
        """update_EMA: a forward that moves φ and makes no gradient."""
        with torch.no_grad():
            self.forward(stacked(batch)[0], track=True)

    def gradient(self, loss):
        """∇L, all parameters in one row."""
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, self.theta.values())])

    def move(self, gradient):
        """θ − γ·gradient."""
        sizes = [p.numel() for p in self.theta.values()]
        for p, g in zip(self.theta.values(), gradient.split(sizes), strict=True):
            p.data -= LR * g.view_as(p)

    def descend(self, loss):
        self.move(self.gradient(loss))


def samples(x, y, ids=None):
    ids = torch.arange(len(y)) if ids is None else ids
    return [Sample(*row[:2], id=int(row[2])) for row in zip(x, y, ids, strict=True)]


def stacked(batch):
    return torch.stack([s.x for s in batch]), torch.stack([s.y for s in batch])


def logits_of(batch):
    return torch.stack([s.logits for s in batch])


def lesson(task, classes):
    """All samples of a task."""
    generator = torch.Generator().manual_seed(task)
    y = torch.tensor(classes)[torch.randint(len(classes), (STEPS * BATCH,), generator=generator)]
    x = torch.randn(len(y), INPUTS, generator=generator) + y[:, None] / 3
    return x, y


def batches(task, x, y, size=BATCH):
    """The samples of a task in another order than they are stored, in batches with their ids."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(100 + task))
    for ids in order.split(size):
        yield x[ids], y[ids], ids


def loader(order, size):
    """Batches of an order; a last one of a single sample joins the batch before it (spec A22)."""
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def points():
    """Samples of no task, to predict."""
    return torch.randn(40, INPUTS, generator=torch.Generator().manual_seed(99)) * 2 + 1


def side_by_side(
    name,
    step,
    *,
    begin=None,
    end=None,
    check=None,
    mixes=False,
    lessons=EVEN,
    hyper=None,
    capacity=CAPACITY,
    memory_batch=MEMORY_BATCH,
    **protocol,
):
    """Learner and twin over three tasks of three steps, the same after every one; with `mixes`,
    the batches run over the task and what is stored."""
    net, generators = network(), Generators.of(3)
    twin = Twin(net, generators, capacity=capacity, memory_batch=memory_batch)
    learner = Learner(
        net,
        make(name, **(hyper or {})),
        memory=capacity,
        memory_batch=memory_batch,
        lr=LR,
        seed=generators,
        **protocol,
    )

    def same():
        assert_same(learner, twin)
        if check is not None:
            check(learner, twin)

    for task, classes in enumerate(lessons, 1):
        x, y = lesson(task, classes)
        twin.arrive(classes, len(y))
        if begin is not None:
            begin(twin, samples(x, y))
        learner.begin(classes, x, y)
        same()
        pool = stacked(samples(x, y) + twin.slots) if mixes else (x, y)
        for batch_x, batch_y, ids in batches(task, *pool):
            step(twin, samples(batch_x, batch_y, ids))
            learner.observe(batch_x, batch_y, ids=ids)
            same()
        if end is not None:
            end(twin, samples(x, y))
        learner.end(x, y)
        same()
    return learner, twin


def assert_same(learner, twin):
    for name, value in learner.net.named_parameters():
        assert close(value, twin.theta[name]), name
    for name, value in learner.net.named_buffers():
        assert close(value, twin.phi[name]), name
    if learner.memory is None:
        return
    assert len(learner.memory) == len(twin.slots)
    if twin.slots:
        filled = slice(len(twin.slots))
        x, y = stacked(twin.slots)
        assert torch.equal(learner.memory.x[filled], x)
        assert torch.equal(learner.memory.y[filled], y)
        assert learner.memory.tasks[filled].tolist() == [s.task for s in twin.slots]
        if twin.slots[0].logits is not None:
            assert close(learner.memory.logits[filled], logits_of(twin.slots)), "logits"


def close(first, second):
    """Products are summed in another order than in the network, so the last bits may differ."""
    return torch.allclose(first, second, rtol=1e-6, atol=1e-6)


def er(twin, bt):
    twin.descend(twin.ce(bt + twin.draw(), track=True))


def er_bnt(twin, bt):
    bm = twin.draw()
    twin.track(twin.balanced(bt, bm))
    loss = twin.ce(bt, track=False)
    if bm:
        loss = loss + twin.ce(bm, track=False)
    twin.descend(loss)
