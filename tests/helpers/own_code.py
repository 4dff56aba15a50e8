"""Files of a user's own, and a process that forgets them when a test is over."""

from pathlib import Path

import pytest

from bntricks import HEADS, NETWORKS, NORMS, OPTIMISERS, RECALIBRATIONS
from bntricks.methods import METHODS
from bntricks.networks.backbones import BACKBONES
from bntricks.plugins import imports
from bntricks.recipes.corrections import CORRECTIONS
from bntricks.streams import registry
from bntricks.training.schedules import SCHEDULES

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method.py"
OWN = {"method": "my-er-bnt", "stream": "my-blobs", "net": "my-net", "norm": "my-norm"}
REGISTRIES = (METHODS, NETWORKS, NORMS, OPTIMISERS, SCHEDULES, registry.OPENERS)
REGISTRIES += (CORRECTIONS, HEADS, RECALIBRATIONS, BACKBONES)
TINY = {"width": 2, "epochs": 1}
METHOD = """
from bntricks import BM, Bt, Method, Reservoir, ce, method

@method("{name}", title="Mine")
def mine(weight: float = {weight}) -> Method:
    return Method(updates=[ce(Bt | BM) + weight * ce(BM)], memory=Reservoir())
"""


@pytest.fixture
def forgetful(monkeypatch):
    """What a test registers is forgotten with it."""
    monkeypatch.setattr(registry, "STREAMS", dict(registry.STREAMS))
    for each in REGISTRIES:
        monkeypatch.setattr(each, "_entries", dict(each.entries()))
        monkeypatch.setattr(each, "_sources", dict(each._sources))
    monkeypatch.setattr(imports, "_LOADED", {})


@pytest.fixture
def nothing_registered(forgetful, monkeypatch):
    """Only what ships is registered, whatever the test modules have registered."""
    for each in REGISTRIES:
        shipped = {name: entry for name, entry in each.entries().items() if each.is_built_in(name)}
        monkeypatch.setattr(each, "_entries", shipped)


def own_method(folder, name="mine", weight=0.5, file="my.py"):
    """A file that registers a method."""
    path = folder / file
    path.write_text(METHOD.format(name=name, weight=weight))
    return path
