"""Rehearsal for models in use: the memory holds distinct images, the same number of every class,
and training batches have even classes too. With room for all images this is joint training. Images
are blended with each other (mixup)."""

from bntricks.methods import NotNegative, method
from bntricks.recipes.language import BM, Bb, Bt, Method, blended
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Even


@method("er-even", title="ER-Even", source="bntricks")
def er_even(mixup: NotNegative = 1.0) -> Method:
    """ER with a memory of even classes and distinct images."""
    return Method(updates=[ce(blended(Bt | BM, mixup))], memory=Even())


@method("er-even-bnt", title="ER-Even-BNT", source="bntricks")
def er_even_bnt(mixup: NotNegative = 1.0) -> Method:
    """ER-Even whose θ and φ both follow the balanced batch alone; φ sees images unblended."""
    return Method(ema=Bb, updates=[ce(blended(Bb, mixup))], memory=Even())
