"""Cosines of per-sample gradients equal those of one backward pass per sample, written out."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bntricks.networks.resnet import ResNet
from bntricks.recipes import sample_gradients as gradients
from bntricks.recipes.sample_gradients import batch_cosines, cosines, per_sample

pytestmark = pytest.mark.law

CLASSES = 5


class Sequence(nn.Module):
    """Linear layers that see [B, T, F]."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 7), nn.Linear(7, CLASSES, bias=False)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x))).mean(1)


class Twice(nn.Module):
    """A convolution, its BatchNorm and a linear layer used twice, and a weight two layers share."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.linear, self.tied = nn.Linear(4, 4), nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.last = nn.Linear(4, CLASSES)

    def forward(self, x):
        for _ in range(2):
            x = F.relu(self.bn(self.conv(x)))
        x = x.mean((2, 3))
        return self.last(torch.tanh(self.tied(self.linear(torch.tanh(self.linear(x))))))


def mlp():
    return nn.Sequential(
        nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(inplace=True), nn.Linear(9, CLASSES)
    )


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 2)),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 3, dilation=2, padding="same", padding_mode="circular"),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Conv2d(6, 8, 3, stride=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


def other_dimensions(conv, norm, pool):
    return (
        nn.Sequential(
            conv(2, 4, 3, padding=1), norm(4), nn.ReLU(), conv(4, 3, 2, stride=2), norm(3), pool(1)
        )
        .append(nn.Flatten())
        .append(nn.Linear(3, CLASSES))
    )


NETS = {
    "resnet-8": (lambda: ResNet(CLASSES, width=4), (3, 8, 8)),
    "resnet-16": (lambda: ResNet(CLASSES, width=4), (3, 16, 16)),
    "mlp": (mlp, (6,)),
    "conv": (conv_net, (3, 9, 8)),
    "conv-1d": (
        lambda: other_dimensions(nn.Conv1d, nn.BatchNorm1d, nn.AdaptiveAvgPool1d),
        (2, 9),
    ),
    "conv-3d": (
        lambda: other_dimensions(nn.Conv3d, nn.BatchNorm3d, nn.AdaptiveAvgPool3d),
        (2, 4, 5, 4),
    ),
    "sequence": (Sequence, (3, 6)),
    "twice": (Twice, (4, 6, 6)),
}


def build(name, seed=0):
    """A network whose BatchNorm layers are not at their initial identity, and its input shape."""
    torch.manual_seed(seed)
    make, shape = NETS[name]
    net = make()
    for layer in net.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            nn.init.normal_(layer.weight, 1, 0.3)
            nn.init.normal_(layer.bias, 0, 0.3)
    return net, shape


def samples(count, shape):
    return torch.randn(count, *shape), torch.randint(0, CLASSES, (count,))


def one_by_one(net, x, y):
    """[B, parameters that require a gradient], each row by its own backward pass."""
    flags = [(module, module.training) for module in net.modules()]
    net.eval()
    parameters = [p for p in net.parameters() if p.requires_grad]
    rows = [
        torch.autograd.grad(F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]), parameters)
        for i in range(len(x))
    ]
    for module, flag in flags:
        module.training = flag
    return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows]).double()


def assert_equal_to_one_by_one(net, new, references):
    g, G = one_by_one(net, *new), one_by_one(net, *references)
    got, against = per_sample(net, *new, total=True), per_sample(net, *references)
    expected = F.cosine_similarity(g.mean(0), G).float()
    torch.testing.assert_close(batch_cosines(got, against), expected, rtol=1e-4, atol=1e-5)
    expected = F.cosine_similarity(g[:, None], G[None], dim=2).float()
    torch.testing.assert_close(cosines(got, against), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETS)
def test_cosines_equal_those_of_one_backward_pass_per_sample(name):
    net, shape = build(name)
    assert_equal_to_one_by_one(net, samples(5, shape), samples(7, shape))


@pytest.mark.parametrize("name", NETS)
def test_the_size_of_a_block_does_not_matter(name, monkeypatch):
    net, shape = build(name)
    monkeypatch.setattr(gradients, "BLOCK", 3000)
    assert_equal_to_one_by_one(net, samples(7, shape), samples(5, shape))


@pytest.mark.parametrize("name", ["resnet-8", "resnet-16", "conv"])
def test_the_memory_format_does_not_matter(name):
    net, shape = build(name)
    (x, y), references = samples(4, shape), samples(4, shape)
    net = net.to(memory_format=torch.channels_last)
    assert_equal_to_one_by_one(net, (x.to(memory_format=torch.channels_last), y), references)


@pytest.mark.parametrize("name", ["resnet-8", "mlp"])
def test_a_single_sample_will_do(name):
    net, shape = build(name)
    assert_equal_to_one_by_one(net, samples(1, shape), samples(1, shape))


def test_frozen_parameters_do_not_count():
    net, shape = build("resnet-8")
    new, references = samples(4, shape), samples(4, shape)
    everything = cosines(per_sample(net, *new), per_sample(net, *references))
    net.conv.requires_grad_(False)
    net.body[1].bn1.weight.requires_grad_(False)
    net.linear.bias.requires_grad_(False)
    assert_equal_to_one_by_one(net, new, references)
    assert not torch.allclose(
        cosines(per_sample(net, *new), per_sample(net, *references)), everything, atol=1e-4
    )


def test_a_frozen_layer_may_be_of_any_kind():
    net = nn.Sequential(nn.LayerNorm(6).requires_grad_(False), *mlp())
    assert_equal_to_one_by_one(net, samples(4, (6,)), samples(4, (6,)))


def test_a_layer_the_loss_does_not_feel_does_not_count():
    net, shape = build("mlp")
    new, references = samples(4, shape), samples(4, shape)
    expected = cosines(per_sample(net, *new), per_sample(net, *references))
    net[0].unused = nn.Linear(3, 3)
    got = per_sample(net, *new, total=True), per_sample(net, *references)
    assert torch.equal(cosines(*got), expected)
    assert batch_cosines(*got).isfinite().all()


def test_a_gradient_of_zero_has_cosine_zero_with_everything():
    net, shape = build("mlp")
    nn.init.zeros_(net[3].weight)
    net[3].bias.data = torch.tensor([1000.0, 0, 0, 0, 0])  # label 0 is certain, to the last bit
    x, _ = samples(3, shape)
    certain, sure_and_not = torch.zeros(3, dtype=torch.int64), torch.tensor([0, 1, 2])
    none = per_sample(net, x, certain, total=True)
    some = per_sample(net, x, sure_and_not, total=True)
    assert torch.equal(cosines(none, some), torch.zeros(3, 3))
    assert torch.equal(batch_cosines(none, some), torch.zeros(3))
    assert batch_cosines(some, some)[0] == 0
    assert (batch_cosines(some, some)[1:] > 0).all()


def test_cosines_stay_within_one():
    net, shape = build("resnet-8")
    same = per_sample(net, *samples(6, shape))
    pairs = cosines(same, same)
    torch.testing.assert_close(pairs.diagonal(), torch.ones(6), rtol=0, atol=1e-6)
    assert pairs.abs().max() <= 1


def test_long_sums_keep_their_digits():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(128, 128, 3), nn.ReLU(), nn.Flatten(2), nn.AvgPool1d(196))
    net.extend([nn.Flatten(), nn.Linear(128, CLASSES)])
    (x, y), (x_old, y_old) = samples(3, (128, 16, 16)), samples(3, (128, 16, 16))
    new, references = per_sample(net, x, y, total=True), per_sample(net, x_old, y_old)
    precise = copy.deepcopy(net).double()
    g, G = one_by_one(precise, x.double(), y), one_by_one(precise, x_old.double(), y_old)
    expected = F.cosine_similarity(g.mean(0), G).float()
    torch.testing.assert_close(batch_cosines(new, references), expected, rtol=0, atol=1e-6)
    expected = F.cosine_similarity(g[:, None], G[None], dim=2).float()
    torch.testing.assert_close(cosines(new, references), expected, rtol=0, atol=1e-6)


def test_it_works_where_gradients_are_switched_off():
    net, shape = build("mlp")
    x, y = samples(4, shape)
    with torch.no_grad():
        off = per_sample(net, x, y)
    assert torch.equal(cosines(off, off), cosines(per_sample(net, x, y), off))


def everything_about(net):
    return (
        {name: value.clone() for name, value in net.state_dict().items()},
        [module.training for module in net.modules()],
        [len(module._forward_hooks) for module in net.modules()],
        [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in net.parameters()],
    )


def assert_untouched(net, before):
    after = everything_about(net)
    assert after[0].keys() == before[0].keys()
    assert all(torch.equal(after[0][name], before[0][name]) for name in before[0])
    assert after[1:3] == before[1:3]
    for (flag, grad), (flag_before, grad_before) in zip(after[3], before[3], strict=True):
        assert flag == flag_before
        assert (grad is None) == (grad_before is None)
        assert grad is None or torch.equal(grad, grad_before)


@pytest.fixture
def lived_in():
    """A network in the middle of training: mixed flags, some gradients, some frozen parameters."""
    net, shape = build("resnet-8")
    F.cross_entropy(net(torch.randn(4, *shape)), torch.arange(4)).backward()
    net.body[0].eval()
    net.body[2].conv1.weight.requires_grad_(False)
    net.conv.weight.grad = None
    return net


def test_nothing_of_the_network_changes(lived_in):
    before = everything_about(lived_in)
    gradients = per_sample(lived_in, *samples(4, (3, 8, 8)), total=True)
    batch_cosines(gradients, gradients)
    cosines(gradients, gradients)
    assert_untouched(lived_in, before)


@pytest.mark.parametrize("where", ["layer", "loss", "gradient"])
def test_nothing_of_the_network_changes_when_it_fails(lived_in, where):
    def fail(*_):
        raise RuntimeError("broken on purpose")

    x, y = samples(4, (3, 8, 8))
    if where == "layer":
        lived_in.body[3].register_forward_pre_hook(fail)
    elif where == "loss":
        y = y + CLASSES
    else:
        lived_in.body[3].register_forward_hook(lambda _, __, z: (z.register_hook(fail), z)[1])
    before = everything_about(lived_in)
    with pytest.raises((RuntimeError, IndexError)):
        per_sample(lived_in, x, y, total=True)
    assert_untouched(lived_in, before)


class Own(nn.Linear):
    """A linear layer that might do anything."""


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.Conv2d(4, 4, 3, groups=2), r"body\.odd \(Conv2d\) has groups=2"),
        (nn.ConvTranspose2d(4, 4, 3), r"body\.odd \(ConvTranspose2d\) is none of Linear"),
        (nn.GroupNorm(2, 4), r"body\.odd \(GroupNorm\) is none of Linear"),
        (nn.PReLU(), r"body\.odd \(PReLU\) is none of Linear"),
        (Own(4, 4), r"body\.odd \(Own\) is none of Linear"),
        (nn.BatchNorm2d(4, track_running_stats=False), r"body\.odd \(BatchNorm2d\) keeps no"),
    ],
)
def test_layers_without_own_gradients_per_sample_are_refused_by_name(layer, message):
    net, shape = build("resnet-8")
    net.body.add_module("odd", layer)
    with pytest.raises(ValueError, match=message):
        per_sample(net, *samples(2, shape))


def test_parameters_beside_the_layers_are_refused():
    net, shape = build("mlp")
    net.temperature = nn.Parameter(torch.ones(()))
    with pytest.raises(ValueError, match=r"at the top \(Sequential\)"):
        per_sample(net, *samples(2, shape))


def test_a_network_frozen_throughout_is_refused():
    net, shape = build("mlp")
    with pytest.raises(ValueError, match="requires a gradient"):
        per_sample(net.requires_grad_(False), *samples(2, shape))


def test_samples_split_into_rows_are_refused():
    net = nn.Sequential(nn.Flatten(0, 1), nn.Linear(6, 4), nn.Unflatten(0, (-1, 3)), nn.Flatten())
    with pytest.raises(ValueError, match=r"layer 1 \(Linear\) sees 6 rows for 2 samples"):
        per_sample(net, *samples(2, (3, 6)))


def test_a_weight_used_behind_its_layers_back_is_refused():
    class Bypass(Sequence):
        def forward(self, x):
            return F.linear(torch.tanh(self.inner(x)), self.outer.weight).mean(1)

    with pytest.raises(ValueError, match="outside its own layer"):
        per_sample(Bypass(), *samples(2, (3, 6)), total=True)


def test_gradients_of_two_networks_are_not_compared():
    (one, shape), (other, _) = build("mlp"), build("mlp", seed=1)
    x, y = samples(2, shape)
    for compare in (cosines, batch_cosines):
        with pytest.raises(ValueError, match="different parameters"):
            compare(per_sample(one, x, y, total=True), per_sample(other, x, y))


def test_the_batch_score_asks_for_the_total():
    net, shape = build("mlp")
    gradients = per_sample(net, *samples(2, shape))
    with pytest.raises(ValueError, match="total=True"):
        batch_cosines(gradients, gradients)
