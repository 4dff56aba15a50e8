"""CLS-ER (Arani et al. 2022): two slow copies of the network set targets on the memory batch, and
the stable one predicts. Its variants separate the effect of the copy from that of its φ."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from bntricks.methods import NotNegative, method
from bntricks.recipes.averages import Average, OfAverage
from bntricks.recipes.classifiers import LINEAR
from bntricks.recipes.language import BM, Bt, Method, Update
from bntricks.recipes.losses import ce, kd
from bntricks.recipes.policies import Reservoir

Share = Annotated[float, Field(ge=0, le=1)]
TINY = {"reg": 0.1, "plastic": 0.08, "stable": 0.05}
BY_STREAM = {"seq-tiny-imagenet": TINY, "seq-tiny-imagenet-20": TINY}


@method("cls-er", title="CLS-ER", source="Arani et al. 2022", by_stream=BY_STREAM)
def cls_er(
    reg: NotNegative = 0.15, plastic: Share = 0.9, stable: Share = 0.1, keep: Share = 0.999
) -> Method:
    """ER with targets from two slow copies that see the memory alone; the stable one predicts."""
    return _cls_er(reg * kd(BM) + ce(Bt | BM), plastic, stable, keep)


@method("cls-er-working-phi", title="CLS-ER, working φ", source="bntricks", by_stream=BY_STREAM)
def cls_er_working_phi(
    reg: NotNegative = 0.15, plastic: Share = 0.9, stable: Share = 0.1, keep: Share = 0.999
) -> Method:
    """CLS-ER, whose stable network predicts with the φ of the network that learns."""
    classify = OfAverage("stable", phi="the network's")
    return replace(cls_er(reg, plastic, stable, keep), classify=classify)


@method("cls-er-working", title="CLS-ER, working network", source="bntricks", by_stream=BY_STREAM)
def cls_er_working(
    reg: NotNegative = 0.15, plastic: Share = 0.9, stable: Share = 0.1, keep: Share = 0.999
) -> Method:
    """CLS-ER, but the network that learns predicts as well."""
    return replace(cls_er(reg, plastic, stable, keep), classify=LINEAR)


@method("cls-er-split", title="CLS-ER-Split", source="Wang et al. 2023", by_stream=BY_STREAM)
def cls_er_split(
    reg: NotNegative = 0.15, plastic: Share = 0.9, stable: Share = 0.1, keep: Share = 0.999
) -> Method:
    """CLS-ER with separate forwards of the current and the memory batch, as in CBA."""
    return _cls_er(reg * kd(BM) + ce(Bt) + ce(BM), plastic, stable, keep)


def _cls_er(update: Update, plastic: float, stable: float, keep: float) -> Method:
    return Method(
        updates=[update],
        memory=Reservoir(),
        averages=[Average("plastic", plastic, keep), Average("stable", stable, keep)],
        classify=OfAverage("stable"),
    )
