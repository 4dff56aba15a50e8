"""Pictures of recipes, drawn from the recipes alone, as panels of the paper's Figure 2; and, as
files, two that never change: the BN dilemma of its Figure 1, and which values norms take together.

    panels = sheet([("ER", make("er")), ("ER-BNT", make("er-bnt"))])
    svg(panels, card=True)
"""

from importlib.resources import files

from bntricks.report.diagrams.drawing import Drawing
from bntricks.report.diagrams.panels import panels
from bntricks.report.diagrams.sheets import legend, sheet
from bntricks.report.diagrams.svg import svg

__all__ = ["Drawing", "fixed", "legend", "panels", "sheet", "svg"]


def fixed(name: str) -> str:
    """A picture that never changes, as SVG: `dilemma` on a white card or, as `dilemma-1` to
    `dilemma-3`, in panels that take the colours of a page; `norms` on a card."""
    return files(__package__).joinpath(f"{name}.svg").read_text(encoding="utf-8")
