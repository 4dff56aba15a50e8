"""Options say themselves what they change, and who may set them."""

import pytest

from bntricks.runs.config import Config

ROLES = {
    "the method": ({"of": "method"}, {"hyper", "balance", "as_published", "imports"}),
    "the memory": ({"of": "memory"}, {"memory", "memory_batch", "memory_per_class"}),
    "the norm": ({"of": "norm"}, {"groups", "momentum", "kappa", "lambda_norm"}),
    "the network's size": ({"of": "network"}, {"width", "blocks", "stages"}),
    "what is compared": (
        {"changes": "subject"},
        {"method", "hyper", "stream", "seed", "imports"},
    ),
    "how it is computed": (
        {"changes": "computation"},
        {"device", "threads", "compile", "deterministic", "ranks"},
    ),
    "whose statistics φ holds": (
        {"decides_phi": True},
        {"batch", "memory_batch", "balance", "recalibrate", "norm", "momentum"}
        | {"first", "increment", "tasks", "blurry"},
    ),
    "no flag of a study": (
        {"study_flag": False},
        {"method", "hyper", "stream", "seed", "imports", "device", "ranks", "tasks", "start"},
    ),
    "no knob of a search": (
        {"competes": False},
        {"seed", "stream", "tasks", "validation", "hyper", "imports", "ranks", "start"},
    ),
}


@pytest.mark.parametrize(("roles", "names"), ROLES.values(), ids=ROLES)
def test_an_option_names_its_roles(roles, names):
    assert Config.options(**roles) == names


def test_whatever_names_no_role_is_part_of_the_protocol():
    assert {"lr", "epochs", "optimiser"} < Config.options(changes="protocol", of=None)
    parts = [Config.options(changes=each) for each in ("subject", "protocol", "computation")]
    assert sum(map(len, parts)) == len(Config.model_fields) == len(frozenset().union(*parts))
