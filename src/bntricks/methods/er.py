"""Experience Replay, with BN Tricks, and taken apart (Secs. 3.1, 4, 5.1, 6.2)."""

from bntricks.methods import method
from bntricks.recipes.language import BM, Bb, Bp, Bt, Copies, Method, balanced
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Reservoir


@method("er", title="ER", source="Chaudhry et al. 2019")
def er() -> Method:
    """Replay: train on new and stored images in one forward."""
    return Method(updates=[ce(Bt | BM)], memory=Reservoir())


@method("er-bnt", title="ER-BNT", source="Zhou et al. 2022")
def er_bnt() -> Method:
    """ER with BN Tricks: φ follows balanced batches, and θ learns in separate forwards."""
    return Method(ema=Bb, updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-balance-batch", title="ER-Balance-Batch", source="Zhou et al. 2022")
def er_balance_batch() -> Method:
    """ER with t-1 copies of the memory batch, at ER's weight in the loss (pilot)."""
    return Method(updates=[ce(Bt | Copies(BM))], memory=Reservoir())


@method("er-cur+buf", title="ER-Cur+Buf", source="Zhou et al. 2022")
def er_cur_buf() -> Method:
    """ER with separate forwards, both of which move φ (pilot)."""
    return Method(updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-cur+prev", title="ER-Cur+Prev", source="Zhou et al. 2022")
def er_cur_prev() -> Method:
    """ER-Cur+Buf without new images in the memory batch (pilot)."""
    return Method(updates=[ce(Bt) + ce(Bp)], memory=Reservoir())


@method("er-balance-joint-train", title="ER-Balance-Joint-Train", source="Zhou et al. 2022")
def er_balance_joint_train() -> Method:
    """ER-BNT with ER's joint forward and a memory forward (ablation)."""
    return Method(ema=Bb, updates=[ce(Bt | BM) + ce(BM)], memory=Reservoir())


@method("er-bnt-no-simulator", title="ER-BNT-No-Simulator", source="Zhou et al. 2022")
def er_bnt_no_simulator() -> Method:
    """ER-BNT without new images in the memory batch (ablation)."""
    return Method(ema=balanced(Bt, Bp), updates=[ce(Bt) + ce(Bp)], memory=Reservoir())


@method("er-bnt-imbalance-tracker", title="ER-BNT-Imbalance-Tracker", source="Zhou et al. 2022")
def er_bnt_imbalance_tracker() -> Method:
    """ER-BNT with φ moved by every forward, the recipe of ER-Cur+Buf (ablation)."""
    return er_cur_buf()


@method("er-prev-joint", title="ER-Prev-Joint", source="Cha et al. 2023")
def er_prev_joint() -> Method:
    """ER without new images in the memory batch, the setting of Task-Balanced BN."""
    return Method(updates=[ce(Bt | Bp)], memory=Reservoir())


@method("er-track-memory", title="ER-Track-Memory", source="Wang et al. 2023")
def er_track_memory() -> Method:
    """ER with separate forwards, of which only that of the memory moves φ, as in CBA."""
    return Method(ema=BM, updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-track-aligned", title="ER-Track-Aligned", source="Boschini et al. 2022")
def er_track_aligned() -> Method:
    """ER with separate forwards, φ from old images and an even share of new ones (X-DER)."""
    return Method(ema=balanced(Bt, Bp), updates=[ce(Bt) + ce(BM)], memory=Reservoir())
