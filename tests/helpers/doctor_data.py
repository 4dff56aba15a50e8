"""Networks and groups for the doctor's tests, small and of known truth."""

import torch
from torch import nn


def network(kind=nn.BatchNorm1d):
    torch.manual_seed(3)
    return nn.Sequential(
        *(nn.Linear(6, 12), kind(12), nn.ReLU()),
        *(nn.Linear(12, 10), kind(10), nn.ReLU(), nn.Linear(10, 4)),
    )


def samples(label, count, generator):
    """Classes 0 and 1 are old and lie near each other; 2 and 3 are new, lie elsewhere, and have
    another shape, so that layers behind a normalisation tell them apart too."""
    new = label > 1
    centre = torch.tensor([1.5, -1.0, 0.5, 0, 0, 0]) * (1 if new else -1)
    centre[3 + label % 2] += 2
    shape = (
        torch.tensor([2.5, 0.3, 1, 1, 0.3, 1]) if new else torch.tensor([0.3, 2, 0.3, 1, 1, 2.5])
    )
    noise = torch.randn(count, 6, generator=generator)
    return noise * shape + centre


def groups(batches=6, size=32, per_group=((0, 1), (2, 3))):
    """Batches of each group, in each of which every class is equally frequent."""
    batches_by_group = {}
    for name, classes in zip(("old", "new", "newer"), per_group, strict=False):
        generator = torch.Generator().manual_seed(sum(classes))
        batches_by_group[name] = []
        for _ in range(batches):
            y = torch.tensor(classes).repeat_interleave(size // len(classes))
            x = torch.cat([samples(k, size // len(classes), generator) for k in classes])
            order = torch.randperm(size, generator=generator)
            batches_by_group[name].append((x[order], y[order]))
    return batches_by_group


def snapshot(net):
    """All that must come back: state, flags, hooks, gradients, and the tensors' identities."""
    modules = dict(net.named_modules())
    return {
        "state": {
            name: (id(t), t.detach().clone()) for name, t in net.state_dict(keep_vars=True).items()
        },
        "flags": {
            name: (m.training, getattr(m, "track_running_stats", None))
            for name, m in modules.items()
        },
        "momentum": {name: getattr(m, "momentum", None) for name, m in modules.items()},
        "hooks": {
            name: (list(m._forward_hooks), list(m._forward_pre_hooks))
            for name, m in modules.items()
        },
        "grads": {name: p.grad for name, p in net.named_parameters()},
        "attributes": {name: sorted(vars(m)) for name, m in modules.items()},
    }


def assert_unchanged(net, before):
    after = snapshot(net)
    for name, (identity, value) in before["state"].items():
        assert after["state"][name][0] == identity, name
        assert torch.equal(after["state"][name][1], value), name
    assert {**before, "state": None} == {**after, "state": None}
