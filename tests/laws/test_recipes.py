"""Recipes are values: BN Tricks is a rewrite, and the table is printed from the code."""

import pytest

from bntricks import BM, BM2, Bb, Bp, Bt, Method, Reservoir, UserError, bn_tricks, ce, make
from bntricks.methods import entries
from bntricks.recipe import Copies, balanced


def test_bn_tricks_turns_er_into_er_bnt():
    assert bn_tricks(make("er")) == make("er-bnt")


def test_bn_tricks_of_the_separate_pilots_are_er_bnt_and_its_ablation():
    assert bn_tricks(make("er-cur+buf")) == make("er-bnt")
    assert bn_tricks(make("er-balance-batch")) == make("er-bnt")
    assert bn_tricks(make("er-cur+prev")) == make("er-bnt-no-simulator")


@pytest.mark.parametrize("name", [n for n in entries() if make(n).replayed])
def test_bn_tricks_is_idempotent(name):
    once = bn_tricks(make(name))
    assert bn_tricks(once) == once


@pytest.mark.parametrize("name", ["sgd", "joint"])
def test_a_method_that_replays_nothing_has_no_bn_tricks_form(name):
    with pytest.raises(UserError, match="replays nothing"):
        bn_tricks(make(name))


def test_a_strangers_method_is_rewritten_too():
    mine = Method(updates=[ce(Bt | BM) + 0.5 * ce(BM2)], memory=Reservoir())
    assert bn_tricks(mine) == Method(
        ema=Bb, updates=[ce(Bt) + ce(BM) + 0.5 * ce(BM)], memory=Reservoir()
    )


def test_the_imbalance_tracker_is_the_pilot_of_separate_forwards():
    assert make("er-bnt-imbalance-tracker") == make("er-cur+buf")


# The EMA and parameters columns as they stand in the paper's Table 2.
PAPER = {
    "er": ("/", "B_t ∪ B_M"),
    "er-balance-joint-train": ("B_b", "B_t ∪ B_M, B_M"),
    "er-bnt-no-simulator": ("B_b", "B_t, B_p"),
    "er-bnt-imbalance-tracker": ("/", "B_t, B_M"),
    "er-bnt": ("B_b", "B_t, B_M"),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_table_printed_from_the_recipes_is_the_papers(name):
    columns = make(name).columns()
    assert (columns["ema"], columns["parameters"]) == PAPER[name]


def test_symbols_write_themselves_as_in_the_paper():
    assert str(ce(Bt | Copies(BM))) == "CE(B_t ∪ (t-1)×B_M)"
    assert str(ce(Bt) + 0.5 * ce(Bp)) == "CE(B_t) + 0.5·CE(B_p)"
    assert str(balanced(Bt, Bp)) == "B_b"


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(UserError, match=r"did you mean er-bnt\?"):
        make("er-bmt")


def test_a_hyper_parameter_the_method_lacks_is_refused():
    with pytest.raises(UserError, match=r"er has no hyper-parameter --alpha: it has none"):
        make("er", alpha=0.5)
