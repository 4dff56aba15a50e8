"""GEM (Lopez-Paz & Ranzato 2017) and A-GEM (Chaudhry et al. 2019): the memory corrects the gradient
and is never trained on, so BN Tricks have nothing to balance."""

from bntricks.methods import NotNegative, method
from bntricks.recipes.language import Bt, Method
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import PerTask
from bntricks.recipes.projections import Cone, HalfSpace


@method("gem", title="GEM", source="Lopez-Paz & Ranzato 2017")
def gem(margin: NotNegative = 0.5) -> Method:
    """Take no step that raises the loss of a past task."""
    return Method(updates=[ce(Bt)], memory=PerTask(), project=Cone(margin))


@method("a-gem", title="A-GEM", source="Chaudhry et al. 2019")
def a_gem() -> Method:
    """Take no step that raises the loss of a memory batch."""
    return Method(updates=[ce(Bt)], memory=PerTask(), project=HalfSpace())
