"""The bounds: SGD from below, Joint from above."""

from bntricks.losses import ce
from bntricks.methods import method
from bntricks.recipe import Bt, Method


@method("joint", title="Joint Training")
def joint() -> Method:
    """All tasks at once, after the last has come: the upper bound."""
    return Method(updates=[ce(Bt)], joint=True)


@method("sgd", title="SGD")
def sgd() -> Method:
    """The stream alone, nothing kept: the lower bound."""
    return Method(updates=[ce(Bt)])
