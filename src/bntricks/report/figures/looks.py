"""The looks of methods: one colour for each in every figure of every study. A method and its BN
Tricks form share hue and shape, and the plain one is dashed; variants of one method share its
colour. Less important groups are grey."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from bntricks.report.groups import RunGroup
from bntricks.report.protocol import departures

BNT = "-bnt"
GREY = "#8A8A8A"
HUES = {  # a method, and its BN Tricks form
    "er": ("#4F9DDB", "#1D6FB8"),
    "der++": ("#E8913A", "#C9560C"),
    "icarl": ("#2FAE86", "#0B8060"),
    "er-ace": ("#D77FC0", "#A03A8A"),
}
COLOURS = {
    **dict.fromkeys(("joint", "sgd", "lwf", "gem", "a-gem", "fdr", "gss"), GREY),
    "er-balance-batch": "#C562A0",
    "er-cur+buf": "#B98A00",
    "er-cur+prev": "#8A63C7",
    "er-balance-joint-train": "#2A9DA8",
    "er-bnt-imbalance-tracker": "#B98A00",  # the recipe of er-cur+buf
    "er-bnt-no-simulator": "#7B9E1F",
    "er-recalibrate": "#D14B5A",
    "er-prev-joint": "#7B9E1F",
    "er-las": "#8A63C7",
    "er-ace-joint": "#7B9E1F",
    "der++-joint": "#5B6FD6",
    "er-track-memory": "#C562A0",
    "er-track-aligned": "#7B9E1F",
    "cls-er": "#2A9DA8",
    "cls-er-working-phi": "#8A63C7",
    "cls-er-working": "#D14B5A",
    "cls-er-split": "#5B6FD6",
    "icarl-concat": "#C562A0",
    "icarl-bnt-no-simulator": "#D14B5A",
    "icarl-bnt-imbalance-tracker": "#5B6FD6",
}
"""Of the paper's other methods and of the controls. Methods with one colour share no study."""
SPARE = ("#C562A0", "#B98A00", "#8A63C7", "#D14B5A", "#7B9E1F", "#5B6FD6", "#2A9DA8")
"""For methods that nobody chose a colour for: their name decides."""
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
MOST_EMPHASISED = 8


@dataclass(frozen=True, slots=True)
class Look:
    colour: str
    dash: tuple[int, ...]
    shape: str

    @property
    def emphasised(self) -> bool:
        return self.colour != GREY


def looks(groups: Sequence[RunGroup]) -> dict[str, Look]:
    """Choose the look of each group, by its label. If there are more than eight coloured ones,
    variants of a method turn grey first, furthest from the paper's protocol before others; then
    methods without a BN Tricks form here, later ones first. Shapes are assigned separately to
    coloured and grey groups."""
    coloured = [each for each in groups if colour(each.method) != GREY]
    ranks = _ranks(groups)
    coloured.sort(key=lambda each: (ranks[each.label], not _paired(each, groups)))
    emphasised = {each.label for each in coloured[:MOST_EMPHASISED]}
    ordinals: dict[bool, dict[tuple[str, str], int]] = {True: {}, False: {}}
    found = {}
    for each in sorted(groups, key=lambda each: not _paired(each, groups)):
        shown = each.label in emphasised
        families = ordinals[shown]
        ordinal = families.setdefault((_base(each, groups), each.variant), len(families))
        dash = DASHES[ordinal // len(SHAPES) % len(DASHES)]
        if _paired(each, groups):
            dash = SOLID if each.method.endswith(BNT) else PLAIN
        shape = SHAPES[ordinal % len(SHAPES)]
        found[each.label] = Look(colour(each.method) if shown else GREY, dash, shape)
    return {each.label: found[each.label] for each in groups}


def colour(method: str) -> str:
    """Return the colour of a method, which is the same everywhere."""
    base = method.removesuffix(BNT)
    if base in HUES:
        return HUES[base][method.endswith(BNT)]
    return COLOURS.get(method) or SPARE[crc32(base.encode(errors="replace")) % len(SPARE)]


def _ranks(groups: Sequence[RunGroup]) -> dict[str, int]:
    """Count, for each group, those of the same method that are nearer to the paper's protocol."""
    ranks: dict[str, int] = {}
    nearer = Counter[str]()
    for each in sorted(groups, key=lambda each: len(departures(each))):
        ranks[each.label] = nearer[each.method]
        nearer[each.method] += 1
    return ranks


def _base(own: RunGroup, groups: Sequence[RunGroup]) -> str:
    return own.method.removesuffix(BNT) if _paired(own, groups) else own.method


def _paired(own: RunGroup, groups: Sequence[RunGroup]) -> bool:
    """Whether the method's counterpart with or without BN Tricks is there too."""
    other = own.method.removesuffix(BNT) if own.method.endswith(BNT) else own.method + BNT
    return any((g.method, g.variant) == (other, own.variant) for g in groups)
