"""Pictures of recipes: of any recipe, legible, harmless, and telling what the code does."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
import torch

from bntricks.methods import entries, make
from bntricks.networks.norms import NORMS, SCHEMES
from bntricks.paper import load_study
from bntricks.recipes.language import BM, Balanced, Bb, Bt, Copies, Loss, Method, Symbol
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Policy, Reservoir
from bntricks.report.diagrams.drawing import Box, Line, Words, fixed, svg, text_width, wrapped
from bntricks.report.diagrams.panels import PHI, THETA, legend, panels, sheet
from bntricks.report.diagrams.passes import passes
from bntricks.training.learner import Learner
from helpers.records import HOSTILE
from helpers.tiny import batches, network, whole

DOCS = Path(__file__).parents[2] / "docs"
METHODS = {name: (entry.title, entry.factory()) for name, entry in entries().items()}
NASTY = f"{HOSTILE}<script>alert('x')</script>\x00\x0b"
LONG = "W" * 300


@dataclass
class Odd(Policy):
    """A memory and a projection with a name of its user's choice."""

    name: str
    fills: str = "step"
    forwards: str = "1"

    def __str__(self):
        return self.name


def unusual(name):
    """A recipe with all there is in it, everything named by someone else."""
    source = Symbol(name) | Copies(BM) | Balanced(Bt | BM, BM)
    return Method(
        updates=[ce(Bt) + 0.125 * Loss(name, ce.of)(source), ce(BM)],
        ema=Balanced(Bt, Symbol(name)),
        memory=Odd(name),
        project=Odd(name),
        teacher="previous",
        prepare=lambda state, samples: None,
        stages=[lambda state, samples: None],
        decay=0.1,
    )


DRAWN = {**METHODS, "nasty": (NASTY, unusual(NASTY)), "long": (LONG, unusual(LONG))}


def of(drawing, kind):
    return [shape for shape in drawing.shapes if isinstance(shape, kind)]


def lines(drawing, colour, end="arrow"):
    return [line for line in of(drawing, Line) if line.colour == colour and line.end == end]


def texts(drawing):
    root = ElementTree.fromstring(svg(drawing, card=True))
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def panel(method, title=""):
    return panels([(title, method)])[0]


@pytest.mark.parametrize("name", METHODS)
def test_every_batch_of_a_recipe_is_in_its_picture(name):
    title, method = METHODS[name]
    shown = texts(panel(method, title))
    sources = [*method.sources, *([method.ema] if method.ema else [])]
    wanted = {str(symbol) for source in sources for symbol in source.symbols()}
    wanted |= {str(source) for source in sources if isinstance(source, Balanced)}
    assert title in shown
    for symbol in wanted:
        # Letters after the underscore are a subscript.
        assert any(symbol.replace("_", "", 1) in text for text in shown), symbol


@pytest.mark.parametrize("name", METHODS)
def test_the_picture_shows_the_passes_that_a_step_makes(name):
    """Counted in a real step of the second task, with something of the first in memory."""
    method = METHODS[name][1]
    learner = Learner(network(), method, memory=12, tasks=3, batch=7, memory_batch=7)
    for task in (1, 2):
        x, y = whole(task)
        learner.begin([2 * task - 2, 2 * task - 1], x, y)
        for step, (x, y) in enumerate(batches(task)):
            moved = int(learner.net[1].num_batches_tracked)
            passed, tracked = learner.state.cost.forwards, learner.state.cost.tracking_forwards
            learner.observe(x, y, ids=torch.arange(step * len(x), (step + 1) * len(x)))
        if task == 1:
            learner.end(*whole(1))
    drawn = panel(method)
    own = [one for one in passes(method) if one.source is not None]
    assert len(lines(drawn, PHI)) == int(learner.net[1].num_batches_tracked) - moved
    trained = [one for one in own if one.theta != "leaves"]
    assert len(trained) == learner.state.cost.forwards - passed
    assert len(own) - len(trained) == learner.state.cost.tracking_forwards - tracked
    taught = method.teacher is not None or bool(method.averages)
    assert len(lines(drawn, THETA)) == len(trained) + taught


def below(drawing, symbol):
    """How the pass of the frame around this tile ends at the bottom."""
    tile = next(box for box in of(drawing, Box) if box.text == (symbol,) and box.size == 12)
    (line,) = [
        line
        for line in of(drawing, Line)
        if tile.x < line.x < tile.x + tile.width and line.y > tile.y and line.dy > 0
    ]
    return line.end, line.colour == PHI


def test_er_bnt_differs_from_er_cur_buf_in_who_moves_the_statistics():
    plain, tricked = panel(make("er-cur+buf")), panel(make("er-bnt"))
    assert [below(plain, symbol) for symbol in ("B_t", "B_M")] == [("arrow", True)] * 2
    assert [below(tricked, symbol) for symbol in ("B_t", "B_M")] == [("stop", False)] * 2
    assert below(tricked, "B_b") == ("arrow", True)
    assert "φ ← every forward" in texts(plain)
    assert "φ ← Bb only" in texts(tricked)


def test_er_has_both_batches_in_one_frame_and_er_cur_buf_in_two():
    def frames(name):
        return [box for box in of(panel(make(name)), Box) if box.shade == 0.07]

    assert len(frames("er")) == 1
    assert len(frames("er-cur+buf")) == 2
    assert len(frames("er-bnt")) == 3


def test_weights_and_steps_are_told():
    assert {"0.2·KD", "+ 0.5·CE"} <= set(texts(panel(make("der++-bnt"))))
    assert {"λ·iCaRL", "loss: + 0.0001·‖θ‖²"} <= set(texts(panel(make("icarl-bnt"))))
    assert {"1. CE", "2. FDR", "θ, 2 steps"} <= set(texts(panel(make("fdr"))))


def test_statistics_move_once_though_their_batch_is_trained_on_twice():
    twice = Method(updates=[ce(Bb), ce(Bb)], ema=Bb, memory=Reservoir())
    assert [one.phi for one in passes(twice)] == ["moves", "leaves"]


def inside(one, other):
    return (
        one.x >= other.x - 0.01
        and one.y >= other.y - 0.01
        and one.x + one.width <= other.x + other.width + 0.01
        and one.y + one.height <= other.y + other.height + 0.01
    )


def apart(one, other):
    return (
        one.x + one.width <= other.x + 0.01
        or other.x + other.width <= one.x + 0.01
        or one.y + one.height <= other.y + 0.01
        or other.y + other.height <= one.y + 0.01
    )


def check_legible(drawing):
    boxes = of(drawing, Box)
    for one, other in combinations(boxes, 2):
        assert apart(one, other) or inside(one, other) or inside(other, one), (one, other)
    for box in boxes:
        room = box.width - 3 * box.behind
        for line in box.text:
            assert text_width(line, box.size, bold=box.bold) <= room, box
        assert len(box.text) * box.size <= box.height, box
    whole = Box(0, 0, drawing.width, drawing.height)
    for box in boxes:
        assert inside(box, whole), box
    for words in of(drawing, Words):
        width = text_width(words.text, words.size, bold=words.bold)
        left = words.x - {"start": 0, "middle": width / 2, "end": width}[words.anchor]
        assert left >= 0, words
        assert left + width <= drawing.width, words
        assert 0 < words.y < drawing.height, words


@pytest.mark.parametrize("name", DRAWN)
def test_no_boxes_overlap_and_all_text_fits(name):
    check_legible(panel(DRAWN[name][1], DRAWN[name][0]))


def test_a_sheet_of_every_method_is_legible_and_well_formed():
    everything = sheet(list(DRAWN.values()))
    check_legible(everything)
    assert ElementTree.fromstring(svg(everything, card=True)).tag.endswith("svg")
    assert "(a) Joint Training" in texts(everything)
    assert any(text.endswith(") ER + recalibration") for text in texts(everything))


def test_a_legend_is_no_wider_than_asked_and_explains_what_is_used():
    narrow = legend([make("icarl-bnt"), make("er-cur+prev")], 290)
    assert narrow.width <= 290
    check_legible(narrow)
    assert {"Bp", "memory, earlier tasks only", "shapes the gradient"} <= set(texts(narrow))
    assert "Bp" not in texts(legend([make("er")], 290))


def test_names_of_a_user_are_text_and_nothing_else():
    drawn = panel(unusual(NASTY), NASTY)
    for card in (True, False):
        text = svg(drawn, card=card)
        root = ElementTree.fromstring(text)
        assert "<script" not in text
        kinds = {element.tag.split("}")[1] for element in root.iter()}
        assert kinds <= {"svg", "rect", "text", "tspan", "line", "polygon", "ellipse"}
    assert any("</script><b>&" in text for text in texts(drawn))


def test_a_file_is_a_white_card_and_a_page_lends_its_ink():
    drawn = panel(make("er"))
    assert 'fill="#ffffff"' in svg(drawn, card=True)
    assert ' color="#111111"' in svg(drawn, card=True)
    in_page = svg(drawn, card=False)
    assert "#ffffff" not in in_page
    assert ' color="' not in in_page
    assert 'fill="currentColor"' in in_page


def test_a_picture_is_told_to_those_who_do_not_see_it():
    root = ElementTree.fromstring(svg(panel(make("er-bnt"), "ER-BNT"), card=False))
    assert root.get("aria-label") == (
        "ER-BNT: θ is moved by CE(B_t) + CE(B_M); φ is moved by B_b alone; memory: reservoir"
    )


def test_long_words_are_broken():
    assert wrapped("", 50) == []
    lines = wrapped(f"a few words {LONG}", 50)
    assert lines[0] == "a few"
    assert "".join(lines).endswith("WWW")
    assert all(text_width(line) <= 50 for line in lines)


def test_the_pictures_in_the_docs_are_those_of_the_package():
    drawn = sheet([METHODS[name] for name in load_study("frameworks").methods])
    pictures = {name: fixed(name) for name in ("dilemma", "norms")}
    for name, picture in {**pictures, "frameworks": svg(drawn, card=True)}.items():
        kept = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert kept == picture, "run `bnt study frameworks` and copy its figures"


def test_the_picture_of_the_norms_shows_each_of_them():
    label = ElementTree.fromstring(fixed("norms")).get("aria-label")
    panels = label.removeprefix("What a value is normalised with. ").split("; ")
    shown = [name for panel in panels for name in panel.partition(":")[0].split(", ")]
    assert sorted(shown) == sorted(name for name in NORMS.entries() if name in SCHEMES)
