"""The bounds: SGD from below, Joint from above."""

from bntricks.methods import method
from bntricks.recipes.language import Bt, Method
from bntricks.recipes.losses import ce


@method("joint", title="Joint Training")
def joint() -> Method:
    """All tasks at once, after the last has come: the upper bound."""
    return Method(updates=[ce(Bt)], joint=True)


@method("sgd", title="SGD")
def sgd() -> Method:
    """The stream alone, nothing kept: the lower bound."""
    return Method(updates=[ce(Bt)])
