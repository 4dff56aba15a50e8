"""ER-Even and ER-Even-BNT equal their straight-line twins: mixup by Zhang et al. 2018, and a memory
that is dealt out class by class when a task ends."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bntricks.methods import make
from bntricks.recipes.language import BM, Bb, Bt, Method, blended
from bntricks.recipes.losses import ce, kd
from bntricks.recipes.policies import Reservoir
from bntricks.recipes.rewrite import bn_tricks
from helpers.twin import EVEN, UNEVEN, side_by_side, stacked

pytestmark = pytest.mark.reference

NAMES = ("er-even", "er-even-bnt")


def mixed_ce(twin, batch, alpha, track):
    """Cross-entropy of each sample blended with another one, among both their labels."""
    x, y = stacked(batch)
    if alpha == 0:
        return twin.ce(batch, track)
    order = torch.randperm(len(y), generator=twin.replay_augmentation)
    seed = torch.randint(2**62, (), generator=twin.replay_augmentation).item()
    shares = torch.tensor(np.random.default_rng(seed).beta(alpha, alpha, len(y))).float()
    blended = torch.stack(
        [s * a + (1 - s) * b for s, a, b in zip(shares, x, x[order], strict=True)]
    )
    scores = F.log_softmax(twin.forward(blended, track), 1)
    losses = [
        -s * row[a] - (1 - s) * row[b]
        for s, row, a, b in zip(shares, scores, y, y[order], strict=True)
    ]
    return torch.stack(losses).mean()


def keep_evenly(twin, task):
    """In each round every class gives one more sample, until the memory is full."""
    pool = twin.slots + [sample._replace(task=twin.t) for sample in task]
    order = torch.randperm(len(pool), generator=twin.insertion).tolist()
    waiting = {int(s.y): [i for i in order if pool[i].y == s.y] for s in pool}
    rounds = []
    for number in range(len(pool)):
        ready = [own[number] for own in waiting.values() if number < len(own)]
        rounds += sorted(ready, key=order.index)
    dealt = rounds[: twin.capacity]
    shuffle = torch.randperm(len(dealt), generator=twin.insertion).tolist()
    chosen = [dealt[i] for i in shuffle]
    known = len(twin.slots)
    kept = sorted(i for i in chosen if i < known)
    twin.slots = [pool[i] for i in kept + [i for i in chosen if i >= known]]


@pytest.mark.parametrize("lessons", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_recipe_equals_its_twin_over_three_tasks_of_three_steps(name, alpha, lessons):
    def er_even(twin, bt):
        twin.descend(mixed_ce(twin, bt + twin.draw(), alpha, track=True))

    def er_even_bnt(twin, bt):
        bb = twin.balanced(bt, twin.draw())
        twin.track(bb)
        twin.descend(mixed_ce(twin, bb, alpha, track=False))

    step = {"er-even": er_even, "er-even-bnt": er_even_bnt}[name]
    side_by_side(name, step, end=keep_evenly, lessons=lessons, hyper={"mixup": alpha})


def test_mixup_is_what_they_do_unless_told_otherwise():
    assert make("er-even-bnt") == make("er-even-bnt", mixup=1.0)
    assert make("er-even-bnt") != make("er-even-bnt", mixup=0.0)
    assert str(make("er-even-bnt").updates[0]) == "CE(mixup(B_b))"
    assert make("er-even-bnt", mixup=0.0).updates == (ce(Bb),)


def test_bn_tricks_takes_a_mixed_union_apart():
    er = Method(updates=[ce(blended(Bt | BM, 0.4))], memory=Reservoir())
    assert bn_tricks(er).updates == (ce(blended(Bt, 0.4)) + ce(blended(BM, 0.4)),)


def test_a_loss_that_knows_one_label_refuses_a_mixed_batch():
    with pytest.raises(ValueError, match="KD knows one label of a sample"):
        Method(updates=[ce(Bt) + kd(blended(BM, 1.0))], memory=Reservoir(keep="logits"))
