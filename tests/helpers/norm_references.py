"""Every normalisation as its formula says, in straight lines: loops over groups of values, explicit
means, no layer of torch. Gradients are those of the same lines.

A reference is called with x [N, C, H, W], γ, β, φ = (mean, var) or None, and whether it trains. It
returns y and the moments (mean, unbiased variance) that φ should follow, if it has a φ.
"""

import torch

EPS = 1e-5


def standardised(values, mean, var):
    return (values - mean) / (var + EPS) ** 0.5


def moments(values):
    """Mean and biased variance of all these values."""
    mean = values.sum() / values.numel()
    return mean, ((values - mean) ** 2).sum() / values.numel()


def affine(x, gamma, beta):
    return gamma[:, None, None] * x + beta[:, None, None]


def per_channel(x):
    """Moments over the batch, for each channel."""
    return tuple(torch.stack(m) for m in zip(*map(moments, x.unbind(1)), strict=True))


def bessel(x, var):
    n = x.numel() // x.shape[1]
    return var * n / (n - 1)


def grouped(x, groups):
    """Each image, and in it each group of channels, by itself."""
    rows = []
    for image in x:
        parts = [standardised(part, *moments(part)) for part in image.chunk(groups)]
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def gn(groups):
    def reference(x, gamma, beta, phi, training):
        return affine(grouped(x, groups), gamma, beta), None

    return reference


def bn(x, gamma, beta, phi, training):
    mean, var = per_channel(x) if training else phi
    y = torch.stack([standardised(x[:, c], mean[c], var[c]) for c in range(x.shape[1])], 1)
    return affine(y, gamma, beta), (mean, bessel(x, var))


def cn(groups):
    def reference(x, gamma, beta, phi, training):
        return bn(grouped(x, groups), gamma, beta, phi, training)

    return reference


def frozen(x, gamma, beta, phi, training):
    """In the second task or later."""
    return bn(x, gamma, beta, phi, training=False)[0], None


def brn(images):
    """After so many images have widened the limits."""
    r_max, d_max = min(3, 1 + 1e-4 * images), min(5, 1e-4 * images)

    def reference(x, gamma, beta, phi, training):
        if not training:
            return bn(x, gamma, beta, phi, training)
        mean, var = per_channel(x)
        y = []
        for c in range(x.shape[1]):
            sigma = (phi[1][c] + EPS).item() ** 0.5
            r = (var[c] + EPS).item() ** 0.5 / sigma
            d = (mean[c] - phi[0][c]).item() / sigma
            r, d = min(max(r, 1 / r_max), r_max), min(max(d, -d_max), d_max)
            y.append(standardised(x[:, c], mean[c], var[c]) * r + d)
        return affine(torch.stack(y, 1), gamma, beta), (mean, bessel(x, var))

    return reference


def tbbn(current, replayed, groups):
    """The published form, by reshaping: each group of stream rows has channels of its own, and the
    replayed rows are repeated for each of them."""

    def reference(x, gamma, beta, phi, training):
        if not training:
            return bn(x, gamma, beta, phi, training)
        _, channels, *side = x.shape
        new = x[:current].reshape(current // groups, groups * channels, *side)
        old = x[current:].repeat(1, groups, 1, 1)
        y, (mean, var) = bn(
            torch.cat([new, old]), gamma.repeat(groups), beta.repeat(groups), None, training
        )
        rows = y[: current // groups].reshape(current, channels, *side)
        means = y[current // groups :].reshape(replayed, groups, channels, *side).mean(1)
        own = (m.reshape(groups, channels).mean(0) for m in (mean, var))
        return torch.cat([rows, means]), tuple(own)

    return reference


def adab2n(tasks, w, as_published=False):
    """Rows of these tasks, numbered from 0, with learned weights w of all tasks so far."""

    def reference(x, gamma, beta, phi, training):
        if not training:
            return bn(x, gamma, beta, phi, training)
        count = [tasks.count(k) for k in range(len(w))]
        c = [w[k].exp() + count[k] for k in range(len(w))]
        total = sum(c[k] for k in range(len(w)) if count[k] or as_published)
        a = [c[k] / total / count[k] for k in tasks]
        y, means, variances = [], [], []
        for channel in x.unbind(1):
            mean = sum(a[i] * row.mean() for i, row in enumerate(channel))
            var = sum(a[i] * ((row - mean) ** 2).mean() for i, row in enumerate(channel))
            y.append(standardised(channel, mean, var))
            means.append(mean)
            variances.append(var)
        moments = torch.stack(means), torch.stack(variances)
        return affine(torch.stack(y, 1), gamma, beta), moments

    return reference
