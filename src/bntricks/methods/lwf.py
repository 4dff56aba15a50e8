"""Learning without Forgetting (Li & Hoiem 2017), for one head over all classes: no memory, but the
network's outputs before the task, recorded at its start."""

import torch
import torch.nn.functional as F

from bntricks.batch import Batch, shuffled
from bntricks.methods import NotNegative, method
from bntricks.networks.head import last_linear
from bntricks.norm import mode
from bntricks.recipes.as_published import unaugmented
from bntricks.recipes.language import Bt, Method
from bntricks.recipes.losses import ce_seen, lwf as distillation
from bntricks.system.devices import take, to_device
from bntricks.training.optimisers import GradientDescent
from bntricks.training.state import State

CIFAR_10 = {"seq-cifar10": {"alpha": 3.0}}


@method("lwf", title="LwF", source="Li & Hoiem 2017", by_stream=CIFAR_10)
def lwf(alpha: NotNegative = 1.0, decay: NotNegative = 5e-4) -> Method:
    """Learn a task's labels, and the outputs that its images got before it was learned."""
    return Method(
        updates=[ce_seen(Bt) + alpha * distillation(Bt)],
        teacher="recorded",
        prepare=warm_up_and_record,
        decay=decay,
    )


def warm_up_and_record(state: State, samples: Batch) -> None:
    """Train the new outputs alone, then record all outputs, from the second task on."""
    if not state.lesson.old:
        return
    with mode(state.net, training=False):
        _warm_up(state, samples)
        with torch.no_grad():
            parts = (to_device(part, state.device) for part in torch.split(samples.x, 256))
            state.recorded = torch.cat([state.net(unaugmented(state, part)) for part in parts])


def _warm_up(state: State, samples: Batch) -> None:
    """Train the new outputs on features of the backbone, which stays in evaluation mode."""
    linear = last_linear(state.net)
    new = torch.tensor(state.lesson.new)
    column = torch.zeros(linear.out_features, dtype=torch.int64)
    column[new] = torch.arange(len(new))
    optimiser = GradientDescent(linear.parameters(), state.optimiser.lr)
    generator = state.replay_augmentation  # nothing is replayed, so it is free
    for epoch in range(state.options.epochs):
        state.report("warming up the classifier", epoch, state.options.epochs)
        for rows in shuffled(len(samples), state.options.batch, generator):
            x = state.view(take(samples.x, rows, state.device), generator)
            target = to_device(column[samples.y[rows]], x.device)
            with torch.no_grad():
                seen = state.embed(x)
            optimiser.zero_grad()
            outputs = linear(seen)[:, to_device(new, x.device)]
            F.cross_entropy(outputs, target).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    state.report("warming up the classifier", state.options.epochs, state.options.epochs)
