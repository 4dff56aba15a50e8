"""Gradient-based Sample Selection, greedy (Aljundi et al. 2019): ER with a chosen memory."""

from bntricks.losses import ce
from bntricks.methods import method
from bntricks.policies import GradientGreedy
from bntricks.recipe import BM, Bt, Method


@method("gss", title="GSS", bnt=True)
def gss() -> Method:
    """ER whose memory keeps samples with unlike gradients; scoring reads φ at every step."""
    return Method(updates=[ce(Bt | BM)], memory=GradientGreedy(), reads_ema=True)
