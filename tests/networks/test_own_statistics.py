"""A layer of one's own that declares its running statistics is treated like BatchNorm."""

import pytest
import torch
from torch import Tensor, nn

from bntricks import (
    Learner,
    RunningStatistics,
    UserError,
    frozen_ema,
    make,
    moments,
    recalibrate,
    update_ema,
)
from bntricks.networks.norms import NORMS, use_of_phi
from bntricks.norm import check_layers, ema_reach, layers
from bntricks.runs.config import Config
from bntricks.runs.folder import run
from bntricks.runs.norms import check_norm
from helpers.tiny import batches, whole


class Shifted(RunningStatistics):
    """Normalises like BatchNorm, and adds one."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            over = [0, *range(2, x.dim())]
            var, mean = torch.var_mean(x, over)
            self.move_phi(mean.detach(), var.detach())
        shape = [1, -1] + [1] * (x.dim() - 2)
        return (x - mean.view(shape)) * (var.view(shape) + self.eps).rsqrt() + 1


class Stranger(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(3))


def network(layer=Shifted):
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(5, 8), layer(8), nn.ReLU(), nn.Linear(8, 6))


def test_the_pieces_know_it():
    net, x = network(), torch.randn(64, 5)
    layer = net[1]
    assert layers(net) == {"1": layer}
    before = layer.running_mean.clone()
    with frozen_ema(net):
        net(x)
    assert torch.equal(layer.running_mean, before)
    update_ema(net, x)
    torch.testing.assert_close(layer.running_mean, 0.1 * net[0](x).mean(0))
    found = moments(net, [x])["1"]
    recalibrate(net, [x])
    torch.testing.assert_close(layer.running_mean.double(), found.mean.double())
    torch.testing.assert_close(layer.running_var, net[0](x).var(0))
    assert ema_reach(net) == 395


def test_it_learns_as_batchnorm_does_and_tracking_may_be_deferred():
    def learned(layer, *, deferred):
        who = Learner(network(layer), make("er-bnt"), memory=12, memory_batch=6, lr=0.1)
        for task in (1, 2):
            who.begin([2 * task - 2, 2 * task - 1])
            for left, (x, y) in zip(range(30, 0, -1), batches(task, 30), strict=True):
                who.observe(x, y, horizon=left if deferred else None)
        return who

    def forgetful(channels):
        return Shifted(channels, momentum=0.99)

    every, deferred = (learned(forgetful, deferred=each) for each in (False, True))
    assert deferred.cost.tracking_skipped >= 15
    for name, value in every.net.state_dict().items():
        assert torch.equal(value, deferred.net.state_dict()[name])
    # φ is moved by the balanced batch alone, as that of BatchNorm.
    plain = learned(lambda channels: nn.BatchNorm1d(channels, momentum=0.99), deferred=False)
    assert plain.cost == every.cost
    assert every.scores(whole(1)[0]).isfinite().all()


def test_a_norm_of_ones_own_runs_with_every_method_that_moves_phi(tmp_path, monkeypatch):
    monkeypatch.setitem(NORMS.entries(), "shifted", lambda channels: Shifted(channels))
    assert use_of_phi("shifted") == "moved"
    small = {"stream": "seq-digits", "images_per_class": 24, "epochs": 1, "width": 4}
    config = Config(method="er-bnt", norm="shifted", blocks=1, stages=2, memory=20, **small)
    assert run(config, out=tmp_path).acc > 0


def test_statistics_that_are_not_declared_are_named(monkeypatch):
    with pytest.raises(UserError, match=r"layer '0' \(Stranger\) has running statistics that it"):
        check_layers(nn.Sequential(Stranger(), nn.ReLU()))
    monkeypatch.setitem(NORMS.entries(), "stranger", lambda channels: Stranger())
    for name in ("er-bnt", "er-recalibrate"):
        with pytest.raises(UserError, match=r"Stranger has running statistics that it does not"):
            check_norm(Config(norm="stranger"), make(name))
    check_norm(Config(norm="stranger"), make("er"))
    with pytest.raises(UserError, match="it has no BatchNorm layer"):
        check_layers(nn.Sequential(nn.InstanceNorm1d(3, track_running_stats=True)))
