"""The bounds: SGD from below, Joint from above."""

from bntricks.methods import method
from bntricks.recipes.language import Bt, Method
from bntricks.recipes.losses import ce


@method("joint", title="Joint Training")
def joint() -> Method:
    """Learn all tasks at once, after the last has come: the upper bound."""
    return Method(updates=[ce(Bt)], joint=True)


@method("sgd", title="SGD")
def sgd() -> Method:
    """Learn the stream alone and keep nothing: the lower bound."""
    return Method(updates=[ce(Bt)])
