"""Dark Experience Replay and DER++ (Buzzega et al. 2020), and DER++ with BN Tricks (Sec. 5.2)."""

from bntricks.methods import NotNegative, method
from bntricks.recipes.language import BM, BM2, Bb, Bt, Method
from bntricks.recipes.losses import ce, kd
from bntricks.recipes.policies import Reservoir

TINY = {"seq-tiny-imagenet": {"alpha": 0.1}, "seq-tiny-imagenet-20": {"alpha": 0.1}}


@method("der", title="DER", source="Buzzega et al. 2020", bnt=True, by_stream=TINY)
def der(alpha: NotNegative = 0.3) -> Method:
    """Replay the logits that stored images got when they were new."""
    return Method(updates=[ce(Bt) + alpha * kd(BM)], memory=Reservoir(keep="logits"))


@method("der++", title="DER++", source="Buzzega et al. 2020")
def derpp(alpha: NotNegative = 0.2, beta: NotNegative = 0.5) -> Method:
    """DER with labels too, on a second memory batch."""
    return Method(
        updates=[ce(Bt) + alpha * kd(BM) + beta * ce(BM2)], memory=Reservoir(keep="logits")
    )


@method("der++-joint", title="DER++-Joint", source="Lyu et al. 2023")
def derpp_joint(alpha: NotNegative = 0.2, beta: NotNegative = 0.5) -> Method:
    """DER++ with its three batches in one forward, each loss on its own rows, as in AdaB²N."""
    return Method(
        updates=[ce(Bt) + alpha * kd(BM) + beta * ce(BM2)],
        memory=Reservoir(keep="logits"),
        together=True,
    )


@method("der++-bnt", title="DER++-BNT", source="Zhou et al. 2022")
def derpp_bnt(alpha: NotNegative = 0.2, beta: NotNegative = 0.5) -> Method:
    """ER-BNT with DER++'s losses, both on one memory batch."""
    return Method(
        ema=Bb,
        updates=[ce(Bt) + alpha * kd(BM) + beta * ce(BM)],
        memory=Reservoir(keep="logits"),
    )
