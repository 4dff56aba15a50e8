"""Function Distance Regularisation (Benjamin et al. 2019)."""

from bntricks.methods import method
from bntricks.recipes.language import BM, Bt, Method
from bntricks.recipes.losses import ce, fdr as distance
from bntricks.recipes.policies import StoredOutputs


@method("fdr", title="FDR", source="Benjamin et al. 2019", bnt=True)
def fdr() -> Method:
    """Step on the current batch, then towards the outputs stored with the memory."""
    return Method(updates=[ce(Bt), distance(BM)], memory=StoredOutputs())
