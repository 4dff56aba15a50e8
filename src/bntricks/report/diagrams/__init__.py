"""Pictures of recipes, drawn from the recipes alone, as panels of the paper's Figure 2; and, as
files, two that never change: the BN dilemma of its Figure 1, and which values norms take together.

    drawn = sheet([("ER", make("er")), ("ER-BNT", make("er-bnt"))])    # .panels
    svg(drawn, card=True)                                              # .drawing
"""
