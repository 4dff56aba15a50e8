"""Experience Replay, with BN Tricks, and taken apart (Secs. 3.1, 4, 5.1, 6.2)."""

from bntricks.methods import method
from bntricks.recipes.language import BM, Bb, Bp, Bt, Copies, Method, balanced
from bntricks.recipes.losses import ce
from bntricks.recipes.policies import Reservoir


@method("er", title="ER")
def er() -> Method:
    """Current and memory batch in one forward."""
    return Method(updates=[ce(Bt | BM)], memory=Reservoir())


@method("er-bnt", title="ER-BNT")
def er_bnt() -> Method:
    """Algorithm 1: φ from the balanced batch, θ from both batches in separate forwards."""
    return Method(ema=Bb, updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-balance-batch", title="ER-Balance-Batch")
def er_balance_batch() -> Method:
    """Pilot: ER with t-1 copies of the memory batch, at ER's weight in the loss."""
    return Method(updates=[ce(Bt | Copies(BM))], memory=Reservoir())


@method("er-cur+buf", title="ER-Cur+Buf")
def er_cur_buf() -> Method:
    """Pilot: separate forwards, both of which move φ."""
    return Method(updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-cur+prev", title="ER-Cur+Prev")
def er_cur_prev() -> Method:
    """Pilot: separate forwards, and no new samples in the memory batch."""
    return Method(updates=[ce(Bt) + ce(Bp)], memory=Reservoir())


@method("er-balance-joint-train", title="ER-Balance-Joint-Train")
def er_balance_joint_train() -> Method:
    """Ablation: ER's joint forward and a memory forward, φ from the balanced batch."""
    return Method(ema=Bb, updates=[ce(Bt | BM) + ce(BM)], memory=Reservoir())


@method("er-bnt-no-simulator", title="ER-BNT-No-Simulator")
def er_bnt_no_simulator() -> Method:
    """Ablation: ER-BNT without new samples in the memory batch."""
    return Method(ema=balanced(Bt, Bp), updates=[ce(Bt) + ce(Bp)], memory=Reservoir())


@method("er-bnt-imbalance-tracker", title="ER-BNT-Imbalance-Tracker")
def er_bnt_imbalance_tracker() -> Method:
    """Ablation: ER-BNT with φ moved by every forward; the same recipe as ER-Cur+Buf."""
    return er_cur_buf()


@method("er-prev-joint", title="ER-Prev-Joint")
def er_prev_joint() -> Method:
    """ER with no new samples in the memory batch: the setting of Task-Balanced BN."""
    return Method(updates=[ce(Bt | Bp)], memory=Reservoir())


@method("er-track-memory", title="ER-Track-Memory")
def er_track_memory() -> Method:
    """Separate forwards; only the memory batch moves φ, as in CBA."""
    return Method(ema=BM, updates=[ce(Bt) + ce(BM)], memory=Reservoir())


@method("er-track-aligned", title="ER-Track-Aligned")
def er_track_aligned() -> Method:
    """Separate forwards; φ from old samples and a balanced share of new ones, as in X-DER."""
    return Method(ema=balanced(Bt, Bp), updates=[ce(Bt) + ce(BM)], memory=Reservoir())
