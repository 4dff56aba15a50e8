"""A method of your own: a loss, a recipe, and its BN Tricks form, which costs one line."""

import torch.nn.functional as F

from bntricks import BM, Bt, Config, Method, Pass, Reservoir, bn_tricks, ce, loss, method, run


@loss("Sharp")
def sharp(p: Pass):
    """Replayed samples must be classified with confidence: cross-entropy at half temperature."""
    return F.cross_entropy(2 * p.logits, p.batch.y.to(p.logits.device))


@method("sharp-er", title="Sharp-ER", bnt=True)  # bnt=True registers sharp-er-bnt as well
def sharp_er(weight: float = 0.5) -> Method:
    """Replay with a sharper loss on the memory batch."""
    return Method(updates=[ce(Bt | BM) + weight * sharp(BM)], memory=Reservoir())


if __name__ == "__main__":
    print("sharp-er:    ", *sharp_er().updates)
    print("sharp-er-bnt:", *bn_tricks(sharp_er()).updates, "with φ from", bn_tricks(sharp_er()).ema)
    for name in ("sharp-er", "sharp-er-bnt"):
        config = Config(method=name, stream="seq-digits", epochs=3, width=4, blocks=1, stages=2)
        print(f"{name}: ACC {run(config).acc:.1f}")
