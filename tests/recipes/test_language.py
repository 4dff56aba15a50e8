"""Recipes are values: BN Tricks is a rewrite, and the table is printed from the code."""

import pytest

from bntricks import BM, BM2, Bb, Bp, Bt, Method, Reservoir, UserError, bn_tricks, ce, make
from bntricks.methods import entries
from bntricks.recipes.language import Bmix, Copies, balanced, blended, lam
from bntricks.recipes.policies import Even

pytestmark = pytest.mark.law


def test_bn_tricks_turns_er_into_er_bnt():
    assert bn_tricks(make("er")) == make("er-bnt")


def test_bn_tricks_turns_derpp_into_derpp_bnt():
    assert bn_tricks(make("der++")) == make("der++-bnt")
    assert bn_tricks(make("der++", alpha=0.7)) == make("der++-bnt", alpha=0.7)


def test_bn_tricks_turns_icarl_into_icarl_bnt():
    assert bn_tricks(make("icarl")) == make("icarl-bnt")
    assert bn_tricks(make("icarl-concat")) != make("icarl-bnt")  # it replays B_p


def test_bn_tricks_of_fdr_simulates_the_test_in_its_first_update():
    first, second = make("fdr-bnt").updates
    assert str(first) == "CE(B_t) + λ·CE(B_b)"
    assert str(second) == "FDR(B_M)"
    assert make("fdr-bnt").ema == Bb


def test_bn_tricks_of_gss_still_reads_phi_at_every_step():
    assert make("gss-bnt").reads_ema
    assert str(make("gss-bnt").updates[0]) == "CE(B_t) + CE(B_M)"


def test_bn_tricks_of_the_separate_pilots_are_er_bnt_and_its_ablation():
    assert bn_tricks(make("er-cur+buf")) == make("er-bnt")
    assert bn_tricks(make("er-balance-batch")) == make("er-bnt")
    assert bn_tricks(make("er-cur+prev")) == make("er-bnt-no-simulator")


@pytest.mark.parametrize("name", [n for n in entries() if make(n).replayed])
def test_bn_tricks_is_idempotent(name):
    once = bn_tricks(make(name))
    assert bn_tricks(once) == once


@pytest.mark.parametrize("name", ["sgd", "joint", "lwf", "gem", "a-gem"])
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
    "icarl": ("/", "B_t_mix"),
    "icarl-concat": ("/", "B_t ∪ B_p"),
    "icarl-bnt-no-simulator": ("B_b", "B_t, B_p"),
    "icarl-bnt-imbalance-tracker": ("/", "B_t, B_b"),
    "icarl-bnt": ("B_b", "B_t, B_b"),
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
    with pytest.raises(UserError, match=r"did you mean er-bnt,"):
        make("er-bmt")


def test_a_hyper_parameter_the_method_lacks_is_refused():
    with pytest.raises(UserError, match=r"alpha: er has no such hyper-parameter: it has none"):
        make("er", alpha=0.5)


@pytest.mark.parametrize("name", ["der++", "der++-bnt", "der", "der-bnt", "lwf"])
def test_a_hyper_parameter_out_of_range_is_refused(name):
    with pytest.raises(UserError, match=r"alpha -1.* greater than or equal to 0"):
        make(name, alpha=-1)
    with pytest.raises(UserError, match=r"alpha nan.* finite"):
        make(name, alpha=float("nan"))


def test_defaults_are_the_papers_and_may_depend_on_the_stream():
    assert entries()["der++"].hyper() == {"alpha": 0.2, "beta": 0.5}
    assert entries()["icarl-bnt"].hyper() == {"delta": 1e-4}
    assert entries()["gem"].hyper() == {"margin": 0.5}
    assert entries()["lwf"].hyper("seq-cifar10")["alpha"] == 3.0
    assert entries()["lwf"].hyper("seq-cifar100")["alpha"] == 1.0
    assert entries()["der-bnt"].hyper("seq-tiny-imagenet")["alpha"] == 0.1


def test_bn_tricks_adds_no_second_simulator_where_there_is_one():
    assert bn_tricks(make("icarl-bnt-imbalance-tracker")) == make("icarl-bnt")
    mixup = Method(updates=[ce(Bt) + lam * ce(blended(Bb, 0.5))], memory=Even())
    assert bn_tricks(mixup).updates == mixup.updates
    joint = Method(updates=[ce(Bt | BM) + ce(BM)], memory=Even())
    assert str(bn_tricks(joint).updates[0]) == "CE(B_t) + λ·CE(B_b) + CE(B_M)"


def test_a_blended_batch_of_the_loader_is_mixed_too():
    assert Method(updates=[ce(blended(Bmix, 1.0))]).mixes
    assert not Method(updates=[ce(blended(Bt, 1.0))]).mixes
