"""Tuning of a pretrained network's trunk, by BN Tricks at a low rate. The result is used only if it
is better than the frozen trunk on both halves of the held-out images."""

import copy
from dataclasses import replace

import torch
from torch import nn

from bntricks.batch import Batch
from bntricks.errors import UserError, abbreviated
from bntricks.files import shown
from bntricks.model.create import build
from bntricks.model.heads import Statistics, all_layers, calibrated
from bntricks.model.learn import learn_task
from bntricks.model.model import Model
from bntricks.model.phi import Decision, better, settle_phi
from bntricks.model.pretrained import highest_scores, parts_right, serve
from bntricks.model.samples import choosing
from bntricks.networks.head import last_linear
from bntricks.recipes.lesson import Lesson
from bntricks.streams import Images
from bntricks.system.devices import near
from bntricks.training.events import Sink
from bntricks.training.optimisers import check_rate

EPOCHS, RATE = 10, 3e-4
FROZEN = "frozen"


def tuned(
    model: Model,
    train: Images,
    first: str | None,
    *,
    epochs: int | None,
    lr: float | None,
    sink: Sink,
) -> Decision:
    """Tune a copy of the trunk, from this part on, on the lesson that a model has just learned
    by features, and use it if it is better: with its own last layer, or with a head on its
    features."""
    frozen, metadata = model.frozen, model.metadata
    assert frozen is not None
    assert frozen.stored_images is not None
    assert frozen.test_images is not None
    assert metadata.backbone is not None
    rate = RATE if lr is None else lr
    check_rate(rate)
    if not len(frozen.tests):
        raise UserError("nothing is held out to tell whether tuning helps", remedy="held_out")
    candidate = Model(build(metadata, copy.deepcopy(model.net), len(model.classes), None), metadata)
    learner, state = candidate.learner, candidate.learner.state
    if first is not None:
        _freeze_before(learner.net, first)
    present = sorted(set(train.y.tolist()))
    others = tuple(k for k in range(len(model.classes)) if k not in present)
    state.lesson = Lesson(len(metadata.taught) - 1, (), others)
    if others and state.method.memory is not None:
        old = torch.isin(frozen.stored.y, torch.tensor(others))
        images = Batch(near(frozen.stored_images[old], learner.device), frozen.stored.y[old])
        state.method.memory.adopt(state, replace(images, ids=torch.arange(len(images))))
    learn_task(
        candidate,
        train,
        present=present,
        others=others,
        outputs=len(model.classes),
        epochs=EPOCHS if epochs is None else epochs,
        lr=rate,
        sink=sink,
        kept=None,
    )
    learner.net.requires_grad_(True)
    tests = Images(frozen.test_images, frozen.tests.y)
    settle_phi(learner, tests)

    tests_now = Images(state.features(tests.x).cpu().half(), tests.y)
    stored = Images(state.features(frozen.stored_images).cpu().half(), frozen.stored.y)
    statistics = Statistics.empty(stored.x.shape[1]).added(stored, len(model.classes))
    head = last_linear(learner.net)
    own = (head.weight.detach().cpu(), head.bias.detach().cpu())
    chooses = choosing(tests.y)
    choosers = Images(tests_now.x[chooses], tests.y[chooses])
    layers = {"trained": own, **all_layers(statistics, stored, choosers)}
    last = last_linear(model.net)
    accuracy = {FROZEN: parts_right((last.weight.cpu(), last.bias.cpu()), frozen.tests)}
    accuracy |= {name: parts_right(layer, tests_now) for name, layer in layers.items()}
    chosen = better(FROZEN, accuracy)
    if chosen != FROZEN:
        layer = calibrated(layers[chosen], choosers)
        serve(learner.net, *layer)
        highest = highest_scores(candidate, tests_now)
        model.learner = learner
        model.frozen = replace(
            frozen, statistics=statistics, stored=stored, tests=tests_now, highest=highest
        )
        about = metadata.backbone.model_copy(update={"head": chosen, "tuned": True})
        model.metadata = metadata.model_copy(update={"backbone": about})
    return Decision(chosen, accuracy)


def check_part(net: nn.Module, first: str) -> None:
    """Refuse a part that the network does not have."""
    if first not in dict(net.named_modules()) or not first:
        parts = abbreviated([name for name, _ in net.named_children()], 8)
        raise UserError(
            f"the network has no such part: it has {parts}, and parts of these",
            option="tune_from",
            value=shown(first),
        )


def _freeze_before(net: nn.Module, first: str) -> None:
    """Unfreeze parameters from this module on, in the order of the network's own list."""
    moving = False
    for name, parameter in net.named_parameters():
        moving = moving or name.startswith(f"{first}.")
        parameter.requires_grad_(moving)
