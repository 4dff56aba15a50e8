"""Rehearsal for models in use: the memory holds distinct images, the same number of every class,
and every batch that is learned from has even classes too. With room for all images it is joint
training."""

from bntricks.methods import method
from bntricks.recipes.language import BM, Bb, Bt, Method
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Even


@method("er-even", title="ER-Even")
def er_even() -> Method:
    """ER with a memory of even classes and distinct images."""
    return Method(updates=[ce(Bt | BM)], memory=Even())


@method("er-even-bnt", title="ER-Even-BNT")
def er_even_bnt() -> Method:
    """Both θ and φ follow the balanced batch alone."""
    return Method(ema=Bb, updates=[ce(Bb)], memory=Even())
