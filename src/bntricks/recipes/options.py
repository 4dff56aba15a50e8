"""What is done to a method's recipe before it is trained: options of a run. Needs no torch."""

from __future__ import annotations

from typing import Annotated

from bntricks.options import Option, Options


class RecipeOptions(Options):
    """What a recipe does when a task is over, besides what the method says."""

    correct: str = "none"
    """How the head's bias towards new classes is corrected when a task is over: `none`; `wa` aligns
    its weights for good; `wa-eval`, `bic`, `il2m` and `prior` only rescore, so they need no
    training of their own."""
    recalibrate: Annotated[str, Option(decides_phi=True)] = "off"
    """When a task is over, set the running statistics: `off` leaves them; `memory` sets them to the
    moments of what is stored."""
