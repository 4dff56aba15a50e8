"""iCaRL (Rebuffi et al. 2017), with BN Tricks (Algorithm 2), and taken apart (Sec. 6.2)."""

from bntricks.methods import NotNegative, method
from bntricks.recipes.classifiers import NearestMean
from bntricks.recipes.language import Bb, Bmix, Bp, Bt, Method, Source, Update, balanced, lam
from bntricks.recipes.losses import icarl as loss
from bntricks.recipes.policies import Herding


def _icarl(*updates: Update, ema: Source | None = None, delta: float) -> Method:
    """Make a variant, with herded exemplars, the previous network as teacher, and nearest means."""
    return Method(
        ema=ema,
        updates=updates,
        memory=Herding(),
        classify=NearestMean(),
        teacher="previous",
        decay=delta,
    )


@method("icarl", title="iCaRL", source="Rebuffi et al. 2017")
def icarl(delta: NotNegative = 1e-4) -> Method:
    """Mix exemplars into each task; the nearest class mean predicts."""
    return _icarl(loss(Bmix), delta=delta)


@method("icarl-bnt", title="iCaRL-BNT", source="Zhou et al. 2022")
def icarl_bnt(delta: NotNegative = 1e-4) -> Method:
    """iCaRL with BN Tricks: the balanced batch moves φ and simulates the test."""
    return _icarl(loss(Bt) + lam * loss(Bb), ema=Bb, delta=delta)


@method("icarl-concat", title="iCaRL-Concat", source="Zhou et al. 2022")
def icarl_concat(delta: NotNegative = 1e-4) -> Method:
    """iCaRL with current batch and exemplars in one forward, as in ER (ablation)."""
    return _icarl(loss(Bt | Bp), delta=delta)


@method("icarl-bnt-no-simulator", title="iCaRL-BNT-No-Simulator", source="Zhou et al. 2022")
def icarl_bnt_no_simulator(delta: NotNegative = 1e-4) -> Method:
    """iCaRL-BNT with θ trained on exemplars instead of the balanced batch (ablation)."""
    return _icarl(loss(Bt) + lam * loss(Bp), ema=balanced(Bt, Bp), delta=delta)


@method(
    "icarl-bnt-imbalance-tracker", title="iCaRL-BNT-Imbalance-Tracker", source="Zhou et al. 2022"
)
def icarl_bnt_imbalance_tracker(delta: NotNegative = 1e-4) -> Method:
    """iCaRL-BNT with φ moved by both forwards (ablation)."""
    return _icarl(loss(Bt) + lam * loss(Bb), delta=delta)
