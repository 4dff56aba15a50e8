"""Pictures of recipes: of any recipe, legible, harmless, and telling what the code does."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bntricks.methods import entries, make
from bntricks.networks.norms import NORMS, SCHEMES
from bntricks.paper import load_study
from bntricks.recipes.language import BM, Balanced, Bb, Bt, Copies, Loss, Method, Symbol
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Policy, Reservoir
from bntricks.report.diagrams.drawing import PHI, THETA, fixed, svg, width_of
from bntricks.report.diagrams.panels import legend, panel, sheet
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


SVG = "{http://www.w3.org/2000/svg}"


def elements(drawing, tag):
    return list(ElementTree.fromstring(svg(drawing, card=True)).iter(f"{SVG}{tag}"))


def texts(drawing):
    return ["".join(text.itertext()) for text in elements(drawing, "text")]


def arrows(drawing, colour):
    return [head for head in elements(drawing, "polygon") if head.get("fill") == colour]


@pytest.mark.parametrize("name", METHODS)
def test_every_batch_of_a_recipe_is_in_its_picture(name):
    title, method = METHODS[name]
    shown = texts(panel(title, method))
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
    drawn = panel("", method)
    own = [one for one in passes(method) if one.source is not None]
    assert len(arrows(drawn, PHI)) == int(learner.net[1].num_batches_tracked) - moved
    trained = [one for one in own if one.theta != "leaves"]
    assert len(trained) == learner.state.cost.forwards - passed
    assert len(own) - len(trained) == learner.state.cost.tracking_forwards - tracked
    taught = method.teacher is not None or bool(method.averages)
    assert len(arrows(drawn, THETA)) == len(trained) + taught


def tracked(name):
    """The texts in the rows of a picture whose forward moves φ."""
    drawn = panel("", make(name))
    heights = [float(head.get("points").split()[0].split(",")[1]) for head in arrows(drawn, PHI)]
    middle = ElementTree.fromstring(svg(drawn, card=True)).iter(f"{SVG}text")
    rows = [(float(text.get("y")), "".join(text.itertext())) for text in middle]
    return [{text for y, text in rows if abs(y - height) < 10} for height in heights]


def test_er_bnt_differs_from_er_cur_buf_in_who_moves_the_statistics():
    plain, tricked = tracked("er-cur+buf"), tracked("er-bnt")
    assert [("Bt" in row, "BM" in row) for row in plain] == [(True, False), (False, True)]
    (row,) = tricked
    assert {"Bb =", "Bt", "BM", "no gradient"} <= row
    assert "φ ← every forward" in texts(panel("", make("er-cur+buf")))
    assert "φ ← Bb only" in texts(panel("", make("er-bnt")))


@pytest.mark.parametrize(("name", "frames"), [("er", 1), ("er-cur+buf", 2), ("er-bnt", 3)])
def test_batches_of_one_forward_share_a_frame(name, frames):
    shaded = [each for each in elements(panel("", make(name)), "rect") if each.get("fill-opacity")]
    assert len(shaded) == frames


def test_weights_and_steps_are_told():
    assert {"CE", "+ 0.2·KD", "+ 0.5·CE"} <= set(texts(panel("", make("der++-bnt"))))
    assert {"+ λ·iCaRL", "loss: + 0.0001·‖θ‖²"} <= set(texts(panel("", make("icarl-bnt"))))
    assert {"1. CE", "2. FDR", "2 steps of θ; φ ← every forward"} <= set(
        texts(panel("", make("fdr")))
    )


def test_statistics_move_once_though_their_batch_is_trained_on_twice():
    twice = Method(updates=[ce(Bb), ce(Bb)], ema=Bb, memory=Reservoir())
    assert [one.phi for one in passes(twice)] == ["moves", "leaves"]


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_leaves_the_picture(name):
    drawn = panel(*DRAWN[name])
    for each in elements(drawn, "rect")[1:]:  # the first is the card
        x, y, width, height = (float(each.get(key)) for key in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + width <= drawn.width
        assert y + height <= drawn.height
    for each in elements(drawn, "text"):
        assert 0 <= float(each.get("x")) <= drawn.width
        assert 0 < float(each.get("y")) < drawn.height


@pytest.mark.parametrize("name", METHODS)
def test_text_fits_its_box(name):
    drawn = panel(*METHODS[name])
    boxes = [
        [float(each.get(key)) for key in ("x", "y", "width", "height")]
        for each in elements(drawn, "rect")[1:]
    ]
    for each in elements(drawn, "text"):
        if each.get("text-anchor") == "middle":
            x, y, size = (float(each.get(key)) for key in ("x", "y", "font-size"))
            around = [w for left, top, w, h in boxes if left < x < left + w and top < y < top + h]
            width = width_of("".join(each.itertext()), size)
            assert not around or width <= min(around), "".join(each.itertext())


def test_a_sheet_of_every_method_has_letters_and_the_legend_last():
    shown = texts(sheet(list(DRAWN.values())))
    assert "(a) Joint Training" in shown
    assert any(text.endswith(") ER + recalibration") for text in shown)
    assert shown[-1] == "shapes the gradient"


def test_a_legend_fits_a_phone_and_explains_what_is_used():
    narrow = legend([make("icarl-bnt"), make("er-cur+prev")])
    assert narrow.width <= 290
    for each in elements(narrow, "text"):
        if each.get("text-anchor") is None:
            assert 56 + 6 * len("".join(each.itertext())) <= narrow.width
    assert {"Bp", "memory, earlier tasks only", "shapes the gradient"} <= set(texts(narrow))
    assert "Bp" not in texts(legend([make("er")]))


def test_names_of_a_user_are_text_and_nothing_else():
    drawn = panel(NASTY, unusual(NASTY))
    for card in (True, False):
        text = svg(drawn, card=card)
        root = ElementTree.fromstring(text)
        assert "<script" not in text
        kinds = {element.tag.split("}")[1] for element in root.iter()}
        assert kinds <= {"svg", "style", "g", "rect", "text", "tspan", "path", "polygon"}
    assert any("</script>" in text for text in texts(drawn))


def test_a_file_is_a_white_card_and_a_page_lends_its_ink():
    drawn = panel("", make("er"))
    assert 'fill="#ffffff"' in svg(drawn, card=True)
    assert ' color="#111111"' in svg(drawn, card=True)
    in_page = svg(drawn, card=False)
    assert "#ffffff" not in in_page
    assert ' color="' not in in_page
    assert 'fill="currentColor"' in in_page


def test_a_picture_is_told_to_those_who_do_not_see_it():
    root = ElementTree.fromstring(svg(panel("ER-BNT", make("er-bnt")), card=False))
    assert root.get("aria-label") == (
        "ER-BNT: θ is moved by CE(B_t) + CE(B_M); φ is moved by B_b alone; memory: reservoir"
    )


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
