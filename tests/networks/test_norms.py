"""Every normalisation layer equals its formula, in training and in evaluation, forward and
backward, and the identities between them hold."""

import pytest
import torch
from torch import nn

import bntricks
from bntricks import NORMS, Rows, given_rows, replace_norm
from bntricks.errors import UserError
from bntricks.networks.norms import SCHEMES, bound, knobs
from bntricks.networks.norms.group_norm import group_count
from bntricks.networks.norms.task_balanced_norm import group_count as tbbn_groups
from bntricks.networks.norms.variant import penalty
from bntricks.norm import ema_reach, frozen_ema, layers, moments, recalibrate
from helpers import norm_references as formulas

pytestmark = pytest.mark.reference

CHANNELS, SIDE = 8, 3
FORMULAS = {
    "bn": formulas.bn,
    "gn": formulas.gn(4),
    "ln": formulas.gn(1),
    "in": formulas.gn(CHANNELS),
    "cn": formulas.cn(4),
    "frozen": formulas.frozen,
    "brn": formulas.brn(7000),
    "gn+ws": formulas.gn(4),
    "tbbn": formulas.bn,  # told nothing; see below
}
TOLD = {"tbbn", "adab2n"}
ROWS = {"frozen": Rows(task=2)}
SIZES = (2, 5, 32)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def inputs(n, seed=0):
    x = torch.randn(n, CHANNELS, SIDE, SIDE, generator=generator(seed), dtype=torch.float64)
    scale = torch.linspace(0.5, 3, CHANNELS, dtype=torch.float64)[:, None, None]
    return (x * scale + scale).requires_grad_()


def layer(name, **knobs):
    """In double precision, with an affine map and a φ that are not those of a fresh layer."""
    new = bound(name, **{"momentum": 0.1, **knobs})(CHANNELS).double()
    with torch.no_grad():
        if name == "brn":
            new.images_tracked += 7000  # r up to 1.7, d up to 0.7
        for parameter in new.parameters():
            parameter.uniform_(0.5, 1.5, generator=generator(1))
        for part in layers(new).values():
            part.running_mean.normal_(generator=generator(2))
            part.running_var.uniform_(0.5, 2, generator=generator(3))
    return new


def affine(new):
    return next((m.weight, m.bias) for m in new.modules() if getattr(m, "bias", None) is not None)


def phi(new):
    for part in layers(new).values():
        return part.running_mean.clone(), part.running_var.clone()
    return None


def same(first, second):
    assert torch.allclose(first, second, rtol=1e-10, atol=1e-12)


def same_gradients(output, expected, leaves):
    probe = torch.randn(output.shape, generator=generator(4), dtype=torch.float64)
    ours = torch.autograd.grad((output * probe).sum(), leaves, retain_graph=True)
    theirs = torch.autograd.grad((expected * probe).sum(), leaves, retain_graph=True)
    for own, other in zip(ours, theirs, strict=True):
        same(own, other)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FORMULAS)
def test_training_is_the_formula(name, n):
    new, x = layer(name), inputs(n)
    before, (gamma, beta) = phi(new), affine(new)
    with given_rows(new, ROWS.get(name, Rows(task=1))):
        output = new(x)
    expected, batch = FORMULAS[name](x, gamma, beta, before, training=True)
    same(output, expected)
    same_gradients(output, expected, (x, gamma, beta))
    if before is not None:
        for own, old, seen in zip(phi(new), before, batch or before, strict=True):
            same(own, 0.9 * old + 0.1 * seen)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FORMULAS)
def test_evaluation_is_the_formula_with_phi(name, n):
    new, x = layer(name).eval(), inputs(n)
    gamma, beta = affine(new)
    expected, _ = FORMULAS[name](x, gamma, beta, phi(new), training=False)
    output = new(x)
    same(output, expected)
    same_gradients(output, expected, (x, gamma, beta))


def test_every_scheme_has_its_formula_here_and_explains_itself():
    ours = {name for name in NORMS.entries() if name in SCHEMES}
    assert ours == FORMULAS.keys() | TOLD
    for scheme in SCHEMES.values():
        assert all((scheme.title, scheme.formula, scheme.shares, scheme.cost))


def test_one_group_is_layernorm_and_a_group_for_each_channel_is_instancenorm():
    x = inputs(5)
    same(layer("gn", groups=1)(x), layer("ln")(x))
    same(layer("gn", groups=CHANNELS)(x), layer("in")(x))
    same(layer("in")(x), nn.InstanceNorm2d(CHANNELS).double()(x) * _column(0) + _column(1))


def _column(index):
    return affine(layer("in"))[index][:, None, None]


def test_continual_normalisation_of_what_groupnorm_leaves_alone_is_batchnorm():
    x = inputs(6).detach().view(6, 4, -1)  # [N, groups, values]
    centred = x - x.mean(2, keepdim=True)
    scale = ((1 - formulas.EPS) / centred.var(2, correction=0, keepdim=True)).sqrt()
    unit = (centred * scale).view(6, CHANNELS, SIDE, SIDE)
    same(layer("cn")(unit), layer("bn")(unit))


def test_momentum_zero_is_the_mean_of_the_batch_moments():
    new = bound("bn", momentum=0.0)(CHANNELS).double()
    batches = [inputs(4, seed) for seed in range(5)]
    for x in batches:
        new(x)
    seen = [formulas.bn(x, *affine(new), None, True)[1] for x in batches]
    same(new.running_mean, torch.stack([mean for mean, _ in seen]).mean(0))
    same(new.running_var, torch.stack([var for _, var in seen]).mean(0))


@pytest.mark.parametrize(
    ("channels", "groups"), [(64, 32), (128, 32), (16, 8), (2, 1), (1, 1), (6, 3), (80, 20), (7, 1)]
)
def test_groups_are_as_published_and_two_channels_or_more(channels, groups):
    assert group_count(channels, None) == groups


def test_groups_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(UserError, match=r"^groups 3: a layer of 8 channels .* divisor of 8$"):
        bound("gn", groups=3)(CHANNELS)


def test_a_scheme_is_given_the_knobs_it_has_and_no_others():
    assert knobs("cn") == {"groups": None, "momentum": 0.1}
    assert bound("ln", groups=4, momentum=0.5)(CHANNELS).num_groups == 1
    assert layers(bound("cn", groups=2, momentum=0.5)(CHANNELS))["1"].momentum == 0.5
    assert bound("bn", momentum=None) is NORMS.find("bn")


def test_renormalisation_begins_as_batchnorm_and_widens_with_the_images():
    new, plain = bound("brn")(CHANNELS).double(), nn.BatchNorm2d(CHANNELS, momentum=0.01).double()
    x = inputs(5)
    same(new(x), plain(x))  # r = 1, d = 0
    assert new.images_tracked == 5
    for own, other in zip(phi(new), phi(plain), strict=True):
        same(own, other)
    assert not torch.allclose(new(x), plain(x), atol=1e-6)
    with frozen_ema(new):
        new(x)
    assert new.images_tracked == 10


@pytest.mark.parametrize(
    ("images", "r", "d"), [(1000, 1.1, 0.1), (30_000, 3.0, 3.0), (10**6, 3.0, 5.0)]
)
def test_the_limits_of_renormalisation_widen_by_a_ten_thousandth_an_image(images, r, d):
    new, x = bound("brn")(CHANNELS).double(), inputs(32)
    new.images_tracked += images
    with torch.no_grad():
        new.running_mean.sub_(1e9)
        new.running_var.mul_(1e-12)  # so far from every batch that both limits are reached
    with frozen_ema(new):
        same(new(x), r * nn.BatchNorm2d(CHANNELS).double()(x) + d)


def test_unlimited_renormalisation_is_evaluation():
    new, x = layer("brn"), inputs(32)
    new.images_tracked += 10**6
    with frozen_ema(new):
        assert torch.allclose(new(x), new.eval()(x))  # no value here is beyond 3 and 5


def test_renormalisation_reads_phi_so_no_tracking_pass_is_left_out():
    assert ema_reach(bound("brn")(CHANNELS)) is None
    assert ema_reach(bound("bn", momentum=0.01)(CHANNELS)) == 4139
    assert ema_reach(bound("gn")(CHANNELS)) == 0


def test_standardised_convolutions_equal_the_formula():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)).double()
    weights = [net[0].weight, net[2].weight]
    replace_norm(net, "gn+ws")
    assert net[0].weight is weights[0]
    x = inputs(5)[:, :3]
    expected = x
    for conv, weight in zip((net[0], net[2]), weights, strict=True):
        kernels = []
        for kernel in weight:
            n = kernel.numel()
            mean, var = formulas.moments(kernel)
            kernels.append((kernel - mean) / ((var * n / (n - 1)) ** 0.5 + 1e-5))
        expected = nn.functional.conv2d(expected, torch.stack(kernels), conv.bias)
        output = nn.Sequential(conv)(x) if conv is net[0] else net[2](net[0](x))
        same(output, expected)
        same_gradients(output, expected, (weight, conv.bias))


def test_a_kernel_of_a_single_number_is_left_alone():
    net = replace_norm(nn.Sequential(nn.Conv2d(1, 3, 1)), "gn+ws")
    assert type(net[0]) is nn.Conv2d


def stored(current, replayed):
    """Rows of the stream, then replayed ones of the first task."""
    return torch.cat([torch.zeros(current), torch.ones(replayed)]).long()


@pytest.mark.parametrize(
    ("current", "replayed", "past", "groups"),
    [
        *(
            (32, 32, past, r)
            for past, r in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8)]
        ),
        *((32, 32, past, 16) for past in (16, 20)),
        *((48, 16, past, r) for past, r in [(1, 2), (2, 4), (3, 8), (5, 8), (6, 16), (9, 16)]),
        (16, 32, 4, 2),
        (8, 7, 5, 1),
        (32, 0, 4, 1),
    ],
)
def test_groups_of_task_balanced_normalisation_are_the_published_ones(
    current, replayed, past, groups
):
    assert tbbn_groups(current, replayed, past) == groups


@pytest.mark.parametrize(
    ("current", "replayed", "task", "groups"), [(32, 32, 5, 4), (16, 32, 5, 2), (48, 16, 3, 4)]
)
def test_task_balanced_normalisation_equals_its_published_form(current, replayed, task, groups):
    new, x = layer("tbbn"), inputs(current + replayed)
    before, (gamma, beta) = phi(new), affine(new)
    with given_rows(new, Rows(task, stored(current, replayed))):
        output = new(x)
    reference = formulas.tbbn(current, replayed, groups)
    expected, batch = reference(x, gamma, beta, before, training=True)
    same(output, expected)
    same_gradients(output, expected, (x, gamma, beta))
    for own, old, seen in zip(phi(new), before, batch, strict=True):
        same(own, 0.9 * old + 0.1 * seen)


@pytest.mark.parametrize(
    ("current", "replayed", "task"), [(8, 8, 2), (8, 7, 6), (8, 0, 6), (8, 8, 1)]
)
def test_one_group_is_batchnorm_to_the_bit(current, replayed, task):
    new, plain, x = layer("tbbn"), layer("bn"), inputs(current + replayed)
    with given_rows(new, Rows(task, stored(current, replayed))):
        assert torch.equal(new(x), plain(x))
    assert all(map(torch.equal, phi(new), phi(plain)))


def test_replayed_rows_may_come_first():
    new, x = layer("tbbn"), inputs(24).detach()
    where = stored(16, 8)
    with given_rows(new, Rows(5, where)):
        usual = new(x)
    with given_rows(new, Rows(5, where.flip(0))):
        swapped = new(torch.cat([x[16:], x[:16]]))
    same(swapped[8:], usual[:16])
    same(swapped[:8], usual[16:])


STORED = torch.tensor([0, 0, 0, 0, 0, 1, 1, 4, 3])
"""The task being learned is the fourth; of the second there is no row."""


@pytest.mark.parametrize("as_published", [False, True])
def test_adaptive_balance_equals_its_formula(as_published):
    new, x = layer("adab2n", tasks=6, lambda_norm=0.7, as_published=as_published), inputs(9)
    before, (gamma, beta) = phi(new), affine(new)
    w, rate = new.task_weights, new.next_rate.item()
    assert rate == pytest.approx(0.1**0.4)
    with given_rows(new, Rows(4, STORED)):
        output = new(x)
    tasks = [3, 3, 3, 3, 3, 0, 0, 3, 2]
    reference = formulas.adab2n(tasks, w[:4], as_published)
    expected, batch = reference(x, gamma, beta, before, training=True)
    same(output, expected)
    same_gradients(output, expected, (x, gamma, beta, w))
    for own, old, seen in zip(phi(new), before, batch, strict=True):
        same(own, old + rate * (seen - old))
    extra = penalty(new)
    distance = sum(((b - p) ** 2).mean() for b, p in zip(batch, phi(new), strict=True))
    same(extra, 0.7 * distance)
    same_gradients(extra, 0.7 * distance, (x, w))
    assert penalty(new) is None


def test_adaptive_balance_of_equal_tasks_has_the_moments_of_batchnorm():
    new, plain, x = layer("adab2n", tasks=4), layer("bn"), inputs(8)
    torch.nn.init.zeros_(new.task_weights)
    with given_rows(new, Rows(4, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))):
        same(new(x), plain(x))
    for rows in (Rows(1, torch.ones(8).long()), Rows(3, torch.zeros(8).long()), Rows(3)):
        with given_rows(new, rows):  # the first task, or nothing replayed
            same(new(x), plain(x))
    same(new(x), plain(x))


@pytest.mark.parametrize(("kappa", "rates"), [(1.0, [0.1] * 4), (0.0, [1, 1 / 2, 1 / 3, 1 / 4])])
def test_kappa_goes_from_an_average_of_all_batches_to_a_moving_one(kappa, rates):
    new = bound("adab2n", tasks=2, kappa=kappa)(CHANNELS).double()
    expected = new.running_mean.clone()
    for seed, rate in enumerate(rates):
        x = inputs(4, seed)
        new(x)
        expected = expected + rate * (formulas.per_channel(x)[0].detach() - expected)
        assert torch.allclose(new.running_mean, expected, rtol=1e-6)


def test_the_rate_of_adaptive_balance_ends_where_a_slow_momentum_is():
    new = bound("adab2n", tasks=2)(CHANNELS)
    for _ in range(400):
        new.move_phi(torch.zeros(CHANNELS), torch.ones(CHANNELS))
    assert new.next_rate.item() == pytest.approx(1 - 0.9**0.4, rel=1e-4)


def test_a_task_too_many_is_refused():
    new = layer("adab2n", tasks=2)
    with (
        given_rows(new, Rows(3, torch.tensor([0, 0, 1]))),
        pytest.raises(UserError, match="for 2 tasks"),
    ):
        new(inputs(3))
    with pytest.raises(UserError, match="tasks: adab2n has a weight for each task"):
        bound("adab2n")(CHANNELS)


def test_frozen_layers_follow_the_first_task_and_no_other():
    new, x = layer("frozen"), inputs(4)
    plain = layer("bn")
    same(new(x), plain(x))  # told nothing, it is BatchNorm
    with given_rows(new, Rows(task=1)):
        same(new(x), plain(x))
    before = phi(new)
    with given_rows(new, Rows(task=2)):
        y = new(x)
    assert new.rows is None
    same(y, new.eval()(x))
    assert all(map(torch.equal, phi(new), before))
    assert new.num_batches_tracked == 2


WITH_PHI = [n for n in (*FORMULAS, "adab2n") if layers(bound(n, tasks=2)(CHANNELS))]


@pytest.mark.parametrize("name", WITH_PHI)
def test_moments_and_recalibration_take_every_layer_for_batchnorm(name):
    new, x = layer(name, tasks=2), inputs(16).detach()
    seen = x if name != "cn" else formulas.grouped(x, 4)
    expected = formulas.bn(seen, *affine(new), None, True)[1]
    with given_rows(new, ROWS.get(name, Rows(task=1))):
        (own,) = moments(new, x.split(8)).values()
        recalibrate(new, x.split(8))
    same(own.mean, expected[0])
    same(own.var, expected[1])
    for part, other in zip(phi(new), expected, strict=True):
        same(part, other)


@pytest.mark.parametrize("name", WITH_PHI)
def test_frozen_ema_leaves_the_statistics_of_every_layer_alone(name):
    new = layer(name, tasks=2)
    before = {key: value.clone() for key, value in new.named_buffers()}
    with frozen_ema(new), given_rows(new, ROWS.get(name, Rows(task=1))):
        new(inputs(4))
    for key, value in new.named_buffers():
        assert torch.equal(value, before[key]), key


def test_what_a_layer_was_told_before_comes_back():
    net, outer, inner = nn.Sequential(bound("tbbn")(4)), Rows(3, torch.zeros(4)), Rows(1)
    with given_rows(net, outer):
        with given_rows(net, inner):
            assert net[0].rows is inner
        assert net[0].rows is outer
    assert net[0].rows is None


def test_the_old_name_of_given_rows_warns():
    with pytest.warns(FutureWarning, match="given_rows"):
        assert bntricks.told is given_rows


def test_a_layer_that_was_plain_before_moments_were_measured_stays_so():
    net = nn.Sequential(bound("brn")(4), bound("brn")(4))
    net[0].plain = True  # someone else's choice
    moments(net, [torch.randn(4, 4, 2, 2)])
    assert [layer.plain for layer in net] == [True, False]
