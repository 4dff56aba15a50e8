"""The looks of methods: one colour for each, which is the same in every figure everywhere. A method
and its BN Tricks form share hue and shape, and the plain one is dashed; variants of one method
share its colour and differ in shape or dash."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

BNT = "-bnt"
GREY = "#8A8A8A"
HUES = {  # a method, and its BN Tricks form
    "er": ("#4F9DDB", "#1D6FB8"),
    "der++": ("#E8913A", "#C9560C"),
    "icarl": ("#2FAE86", "#0B8060"),
    "er-ace": ("#D77FC0", "#A03A8A"),
}
COLOURS = {
    "joint": GREY,
    "sgd": "#835D5E",
    "lwf": "#44697A",
    "gem": "#747856",
    "a-gem": "#737091",
    "fdr": "#568485",
    "gss": "#526B51",
    "er-balance-batch": "#C562A0",
    "er-cur+buf": "#B98A00",
    "er-cur+prev": "#8A63C7",
    "er-balance-joint-train": "#2A9DA8",
    "er-bnt-imbalance-tracker": "#8F5D04",
    "er-bnt-no-simulator": "#7B9E1F",
    "er-recalibrate": "#D14B5A",
    "er-prev-joint": "#7E5596",
    "er-las": "#A380C8",
    "er-ace-joint": "#388A08",
    "der++-joint": "#5B6FD6",
    "er-track-memory": "#F75585",
    "er-track-aligned": "#17A92A",
    "cls-er": "#7885F8",
    "cls-er-working-phi": "#B770F8",
    "cls-er-working": "#D47C77",
    "cls-er-split": "#2A5CDA",
    "icarl-concat": "#D961D2",
    "icarl-bnt-no-simulator": "#AB4235",
    "icarl-bnt-imbalance-tracker": "#91985E",
}
"""Of the paper's other methods and of the controls; no two share one."""
SPARE = ("#F86111", "#AB6C6E", "#B74BC2", "#C2206A", "#6851C3", "#0E7F9B", "#A07C5B")
"""For methods that nobody chose a colour for: their name decides."""
RAMP = (
    "#6A5ACD",
    "#4F6BD0",
    "#3B7BC0",
    "#2A88A4",
    "#1F9285",
    "#3C9A5F",
    "#74983A",
    "#A88E22",
    "#CC7A1E",
)
"""For the variants of a method that is alone, in their order."""
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
SOLID, PLAIN = (1, 0), (6, 3)
DASHES = (SOLID, (2, 2), (8, 2, 2, 2))
INK, PAPER, RAIL = "#1b1f24", "#ffffff", "#d0d7de"
"""Of figures outside of pages: what is written, what it is written on, and the grid."""
DARK = (
    "<style>@media (prefers-color-scheme: dark) {"
    f'[fill="{INK}"] {{ fill: #e6e9ed; }} [stroke="{INK}"] {{ stroke: #e6e9ed; }} '
    f'svg {{ color: #e6e9ed; }} [stroke="{RAIL}"] {{ stroke: #3a434d; }} '
    f'svg > [fill="{PAPER}"] {{ fill: #14181d; }} }}</style>'
)
"""How a picture in a file follows a reader's dark scheme."""


@dataclass(frozen=True, slots=True)
class Look:
    colour: str = GREY
    dash: tuple[int, ...] = SOLID
    shape: str = SHAPES[0]


NO_LOOK = Look()
"""Until a group is seen beside others."""


def looks(names: Sequence[tuple[str, str]]) -> list[Look]:
    """Choose the look of each method and variant. Those whose counterpart with or without BN Tricks
    is here come first, so that they have shapes that nothing else has. Variants of a single method
    differ in colour as well."""
    known = {*names}
    if len({method for method, _ in names}) == 1 < len(names):
        return [
            Look(
                RAMP[index * (len(RAMP) - 1) // (len(names) - 1)],
                SOLID,
                SHAPES[index % len(SHAPES)],
            )
            for index in range(len(names))
        ]
    paired = [(counterpart(method), variant) in known for method, variant in names]
    families: dict[tuple[str, str], int] = {}
    found: dict[int, Look] = {}
    for index in sorted(range(len(names)), key=lambda index: not paired[index]):
        method, variant = names[index]
        base = method.removesuffix(BNT) if paired[index] else method
        ordinal = families.setdefault((base, variant), len(families))
        dash = DASHES[ordinal // len(SHAPES) % len(DASHES)]
        if paired[index]:
            dash = SOLID if method.endswith(BNT) else PLAIN
        found[index] = Look(colour(method), dash, SHAPES[ordinal % len(SHAPES)])
    return [found[index] for index in range(len(names))]


def counterpart(method: str) -> str:
    """Return the method with BN Tricks, or without if it has them."""
    return method.removesuffix(BNT) if method.endswith(BNT) else method + BNT


def colour(method: str) -> str:
    """Return the colour of a method, which is the same everywhere."""
    base = method.removesuffix(BNT)
    if base in HUES:
        return HUES[base][method.endswith(BNT)]
    return COLOURS.get(method) or SPARE[crc32(base.encode(errors="replace")) % len(SPARE)]
