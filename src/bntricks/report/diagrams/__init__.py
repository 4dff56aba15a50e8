"""Pictures drawn from values alone: any recipe as a panel of the paper's Figure 2, the BN
dilemma of its Figure 1, and which values the normalisations take together.

    panels = sheet([("ER", make("er")), ("ER-BNT", make("er-bnt"))])
    svg(panels, card=True)
"""

from bntricks.report.diagrams.dilemma import dilemma, dilemma_panels
from bntricks.report.diagrams.drawing import Drawing
from bntricks.report.diagrams.norms import norms_picture
from bntricks.report.diagrams.panels import panels
from bntricks.report.diagrams.sheets import legend, sheet
from bntricks.report.diagrams.svg import svg

__all__ = [
    "Drawing",
    "dilemma",
    "dilemma_panels",
    "legend",
    "norms_picture",
    "panels",
    "sheet",
    "svg",
]
