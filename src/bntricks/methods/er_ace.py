"""Rivals of ER by their losses: ER-ACE (Caccia et al. 2022) and ER-LAS (Huang et al. 2024)."""

from bntricks.methods import method
from bntricks.recipes.language import BM, Bt, Method
from bntricks.recipes.losses import ace, ce, las
from bntricks.recipes.policies import Reservoir


@method("er-ace", title="ER-ACE", source="Caccia et al. 2022", bnt=True)
def er_ace() -> Method:
    """ER with separate forwards, where the current batch does not push old classes down."""
    return Method(updates=[ace(Bt) + ce(BM)], memory=Reservoir())


@method("er-ace-joint", title="ER-ACE-Joint", source="Lyu et al. 2023")
def er_ace_joint() -> Method:
    """ER-ACE with both batches in one forward, each loss on its own rows, as in AdaB²N."""
    return Method(updates=[ace(Bt) + ce(BM)], memory=Reservoir(), together=True)


@method("er-las", title="ER-LAS", source="Huang et al. 2024")
def er_las() -> Method:
    """ER with logits adjusted by how often each class is in the joint batch."""
    return Method(updates=[las(Bt | BM)], memory=Reservoir())
