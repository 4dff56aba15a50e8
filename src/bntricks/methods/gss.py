"""Gradient-based Sample Selection, greedy (Aljundi et al. 2019): ER with a chosen memory."""

from bntricks.methods import method
from bntricks.recipes.gradient_greedy import GradientGreedy
from bntricks.recipes.language import BM, Bt, Method
from bntricks.recipes.losses import ce


@method("gss", title="GSS", source="Aljundi et al. 2019", bnt=True)
def gss() -> Method:
    """ER whose memory keeps samples with unlike gradients; scoring reads φ at every step."""
    return Method(updates=[ce(Bt | BM)], memory=GradientGreedy(), reads_ema=True)
