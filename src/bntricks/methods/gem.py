"""GEM (Lopez-Paz & Ranzato 2017) and A-GEM (Chaudhry et al. 2019): the memory corrects the gradient
and is never trained on, so BN Tricks have nothing to balance."""

from bntricks.methods import NotNegative, method
from bntricks.recipes.language import Bt, Method
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import PerTask
from bntricks.recipes.projections import Cone, HalfSpace


@method("gem", title="GEM")
def gem(margin: NotNegative = 0.5) -> Method:
    """No step may raise the loss of any past task."""
    return Method(updates=[ce(Bt)], memory=PerTask(), project=Cone(margin))


@method("a-gem", title="A-GEM")
def a_gem() -> Method:
    """No step may raise the loss of a memory batch."""
    return Method(updates=[ce(Bt)], memory=PerTask(), project=HalfSpace())
