"""A control the paper leaves open: how much of BN Tricks is φ alone? ER, trained as ever, whose φ
is set to the memory's own moments when a task is over. The memory is near balanced, and θ is not
touched."""

from bntricks.methods import method
from bntricks.methods.er import er
from bntricks.recipes.language import Method
from bntricks.recipes.rewrite import recalibrated


@method("er-recalibrate", title="ER + recalibration")
def er_recalibrate() -> Method:
    """Control: ER, and after each task φ is estimated anew on the memory."""
    return recalibrated(er())
