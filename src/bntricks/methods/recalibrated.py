"""A control: how much of BN Tricks is due to φ alone? ER, trained as usual, whose φ is set to the
moments of the memory, which is near balanced, when a task is over; θ stays."""

from bntricks.methods import method
from bntricks.methods.er import er
from bntricks.recipes.language import Method
from bntricks.recipes.rewrite import recalibrated


@method("er-recalibrate", title="ER + recalibration", source="bntricks")
def er_recalibrate() -> Method:
    """ER, and after each task φ is estimated anew on the memory (control)."""
    return recalibrated(er())
