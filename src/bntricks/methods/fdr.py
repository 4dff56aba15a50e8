"""Function Distance Regularisation (Benjamin et al. 2019)."""

from bntricks.losses import ce
from bntricks.losses import fdr as distance
from bntricks.methods import method
from bntricks.policies import Outputs
from bntricks.recipe import BM, Bt, Method


@method("fdr", title="FDR", bnt=True)
def fdr() -> Method:
    """A step on the current batch, then one towards the outputs stored with the memory."""
    return Method(updates=[ce(Bt), distance(BM)], memory=Outputs())
