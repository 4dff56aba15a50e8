"""`bnt check --contract`: what breaks the contract is found, named and located."""

import json
import os

import pytest

from bntricks import import_code
from bntricks.streams.registry import STREAMS
from bntricks.sweeps import contract
from bntricks.sweeps.contract import PARTS, Subject, check_contract, subjects
from helpers.official import Official
from helpers.own_code import EXAMPLE, forgetful, nothing_registered

__all__ = ["forgetful", "nothing_registered"]

SHIPPED = [
    Subject(kind, name)
    for kind, registry in contract.KINDS.items()
    for name in registry.entries()
    if registry.is_built_in(name)
]
BREAKING = """
import torch
from torch import nn

from bntricks import BM, NORMS, Bt, Method, Policy, Reservoir, ce, loss, method

calls = []

@loss("Counted")
def counted(p):
    calls.append(1)  # outlives the run
    return p.logits.square().mean() * len(calls)

@loss("Here")
def here(p):
    return (p.logits * torch.ones(len(p.logits), 1, device="cpu").clone()).mean()

@method("counting", title="Counting")
def counting() -> Method:
    return Method(updates=[ce(Bt | BM) + 0.01 * counted(Bt)], memory=Reservoir())

@method("staying", title="Staying")
def staying() -> Method:
    return Method(updates=[ce(Bt | BM) + 0.1 * here(Bt)], memory=Reservoir())

@NORMS.named("forgetting")
class Forgetting(nn.BatchNorm2d):
    scale = 1.0  # no buffer, so no file has it

    def forward(self, x):
        if self.training:
            self.scale *= 1.01
        return super().forward(x) * self.scale
"""


@pytest.fixture
def breaking(tmp_path, nothing_registered):
    path = tmp_path / "breaking.py"
    path.write_text(BREAKING)
    return path


def test_what_breaks_the_contract_is_named_with_its_line(bnt, breaking):
    parts = ("again", "loaded", "devices")
    done = bnt("check", "--contract", "--import", breaking, "--parts", *parts, "--json")
    assert done.code == 1
    assert "the contract is broken by counting, staying, forgetting" in done.err
    rows = json.loads(done.out)["rows"]
    assert len(rows) == 3 * len(parts)
    broken = {(row["name"], row["part"]): row["note"] for row in rows if row["outcome"] == "broken"}
    assert broken.keys() == {
        ("counting", "again"),
        ("staying", "devices"),
        ("forgetting", "loaded"),
    }
    assert "network" in broken["counting", "again"]
    line = BREAKING.splitlines().index(
        '    return (p.logits * torch.ones(len(p.logits), 1, device="cpu").clone()).mean()'
    )
    assert f"{breaking}:{line + 1}: RuntimeError" in broken["staying", "devices"]


STALE = """
from bntricks import BM, NORMS, Bb, Bt, Method, Policy, Reservoir, ce, method
from torch import nn, zeros

class Looking(Policy):
    def update(self, state, samples):
        state.net.eval()(state.view(samples.x, None))
        state.net.train()
        Reservoir().update(state, samples)

class Reading(Policy):
    def update(self, state, samples):
        phi = [b for n, b in state.net.named_buffers() if n.endswith("running_mean")]
        if float(phi[0].sum() * 1e6) % 2 < 1:
            Reservoir().update(state, samples)

@method("looking", title="Looking")
def looking() -> Method:
    return Method(updates=[ce(Bt) + ce(BM)], ema=Bb, memory=Looking())

@method("reading", title="Reading")
def reading() -> Method:
    return Method(updates=[ce(Bt) + ce(BM)], ema=Bb, memory=Reading())

@method("declared", title="Declared")
def declared() -> Method:
    return Method(updates=[ce(Bt) + ce(BM)], ema=Bb, memory=Reading(), reads_ema=True)

@NORMS.named("undeclared")
class Undeclared(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.register_buffer("running_mean", zeros(channels))
"""


def test_code_that_reads_stale_statistics_is_found_though_the_trials_are_short(
    nothing_registered, tmp_path
):
    path = tmp_path / "stale.py"
    path.write_text(STALE)
    import_code(path)
    found = {each.subject.name: each for each in check_contract(subjects(), parts=["every-step"])}
    outcomes = {name: finding.outcome for name, finding in found.items()}
    assert outcomes.pop("declared") == "kept"
    assert set(outcomes.values()) == {"broken"}
    assert found["looking"].note.startswith(f"{path}:7: a normalisation layer is evaluated while")
    assert found["reading"].note.startswith("different bits")
    assert "RunningStatistics" in found["undeclared"].note


NETS = """
import torch
from torch import nn

def with_dropout(classes):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes),
    )

class Counting(nn.BatchNorm2d):
    calls = 0  # no buffer, so no file has it

    def forward(self, x):
        self.calls += self.training
        return super().forward(x) * (1 + self.calls / 100)

def counting(classes):
    net = with_dropout(classes)
    net[1] = Counting(4)
    return net
"""


@pytest.mark.parametrize(
    ("function", "outcome"), [("with_dropout", "kept"), ("counting", "broken")]
)
def test_a_network_named_by_its_function_is_tried(bnt, tmp_path, monkeypatch, function, outcome):
    where = f"contract_nets_{tmp_path.name}"
    (tmp_path / f"{where}.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    done = bnt(
        "check",
        "--contract",
        "--net",
        f"{where}:{function}",
        "--parts",
        "again",
        "loaded",
        "--json",
    )
    rows = json.loads(done.out)["rows"]
    assert [(row["kind"], row["part"]) for row in rows] == [("net", "again"), ("net", "loaded")]
    assert rows[0]["outcome"] == "kept"
    assert rows[1]["outcome"] == outcome
    assert done.code == (outcome == "broken")


def test_a_table_shows_all_parts_and_what_was_found(bnt, breaking):
    done = bnt(
        "check", "--contract", "--import", breaking, "--names", "counting", "--parts", "again"
    )
    assert done.code == 1
    assert "counting" in done.out
    assert "broken" in done.out
    assert "method counting, again: different bits: network" in done.out


def test_code_that_keeps_the_contract_is_found_to_keep_it(nothing_registered):
    import_code(EXAMPLE)
    [subject] = [each for each in subjects() if each.name == "my-er-bnt"]
    findings = list(check_contract([subject]))
    assert [finding.part for finding in findings] == list(PARTS)
    outcomes = {finding.part: finding.outcome for finding in findings}
    assert outcomes.pop("threads") == "reported"
    assert outcomes.pop("options") == "not here"
    assert set(outcomes.values()) == {"kept"}


def test_a_stream_that_ignores_an_option_breaks_the_contract(monkeypatch):
    resolve = contract.resolve

    def deaf(config, data):
        return resolve(config.model_copy(update={"images_per_class": 20}), data)

    monkeypatch.setattr(contract, "resolve", deaf)
    [finding] = check_contract([Subject("stream", "seq-digits")], parts=["options"])
    assert finding.outcome == "broken"
    assert finding.note == "without effect: images_per_class"


def test_what_cannot_be_checked_is_refused_in_a_line(refused):
    refused("check", "--contract", "--names", "er-bnx", words=["er-bnx", "registered"])
    refused("check", "--contract", "--parts", "methods", words=["--parts", "again"])
    refused("check", "--parts", "again", words=["--parts", "methods"])
    refused("check", "--contract", "--device", "mps", words=["--device", "CPU"])
    refused("check", "--names", "er", words=["--names", "--contract"])


def test_images_that_are_not_here_are_not_a_failure():
    [finding] = check_contract([Subject("stream", "seq-cifar10")], parts=["again"])
    assert finding.outcome == "not here"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Folders with a few images of every data set that does not come with the package."""
    where = tmp_path_factory.mktemp("images")
    Official.cifar10(where, train=20, test=2)
    Official.cifar100(where, train=12)
    Official.tiny(where, train=12)
    for number in range(40):
        file = where / "photos" / f"kind{number % 4}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(Official.jpeg(6 * number))
    photos = (f"photos/kind{number % 4}/{number}.jpg,kind{number % 4}" for number in range(40))
    (where / "photos.csv").write_text("\n".join(["path,label", *photos]) + "\n")
    return where


@pytest.mark.slow
@pytest.mark.parametrize("subject", SHIPPED, ids=lambda subject: f"{subject.kind} {subject.name}")
def test_all_that_ships_keeps_the_contract(subject, images):
    """In the parts that are quick; `make test-deep` has all."""
    parts = () if os.environ.get("BNT_EVERY_POINT") else ("interrupted", "loaded", "options")
    data = None
    if subject.kind == "stream" and STREAMS[subject.name].data != "embedded":
        data = images / {"folder": "photos", "csv": "photos.csv"}.get(subject.name, "")
    for finding in check_contract([subject], parts=parts, data=data):
        assert finding.outcome != "broken", f"{finding.part}: {finding.note}"
        assert finding.outcome != "not here" or finding.part == "options"
