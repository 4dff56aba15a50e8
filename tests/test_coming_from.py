"""The code of `docs/coming-from.md`: public names only, and for Mammoth and PyCIL, which cannot be
installed, against stand-ins with their interface. `tests/neighbours.py` runs the rest."""

import ast
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import bntricks
from bntricks import BNTricks, Memory
from helpers.pages import DOCS

PARTS = dict(
    re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?^```py\n(.*?)^```$",
        (DOCS / "coming-from.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
TASKS = 2


@pytest.mark.parametrize("framework", PARTS)
def test_the_code_needs_public_names_only(framework):
    found = list(ast.walk(ast.parse(PARTS[framework])))
    modules = {node.module for node in found if isinstance(node, ast.ImportFrom)}
    assert not [module for module in modules if module.startswith("bntricks.")]
    (own,) = [n for n in found if isinstance(n, ast.ImportFrom) and n.module == "bntricks"]
    assert {alias.name for alias in own.names} <= set(bntricks.__all__)


def test_the_page_has_all_four():
    assert set(PARTS) == {"Avalanche", "Mammoth", "PyTorch Lightning", "PyCIL"}


class Logits(nn.Sequential):
    """A network of PyCIL's: it returns a dictionary."""

    def forward(self, x):
        return {"logits": super().forward(x)}


def network(kind=nn.Sequential):
    torch.manual_seed(0)
    return kind(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


def batches(task):
    random = torch.Generator().manual_seed(task)
    for _ in range(4):
        y = torch.randint(2, (12,), generator=random) + 2 * task
        yield torch.randn(12, 5, generator=random), y


def expected(**options):
    """The weights after a plain loop."""
    net = network()
    optimiser = torch.optim.SGD(net.parameters(), **options)
    tricks = BNTricks(net, memory=20, batch=8)
    for task in range(TASKS):
        tricks.begin([2 * task, 2 * task + 1])
        if task:  # PyCIL and Mammoth begin each task with a new optimiser
            optimiser = torch.optim.SGD(net.parameters(), **options)
        for x, y in batches(task):
            optimiser.zero_grad()
            tricks.step(x, y, cross_entropy).backward()
            optimiser.step()
    return net.state_dict()


def assert_same(net, weights):
    for name, value in net.state_dict().items():
        assert torch.equal(value, weights[name]), name


def defined(monkeypatch, framework, name, **modules):
    """What the page's code defines, where the framework's modules are these."""
    monkeypatch.setitem(sys.modules, "models", ModuleType("models"))
    for module, content in modules.items():
        stand_in = ModuleType(f"models.{module}")
        vars(stand_in).update(content)
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    names = {"__name__": "page"}
    exec(PARTS[framework], names)
    return names[name]


class Buffer:
    """Mammoth's, by its interface; it decides as ours does, so that bits can be compared."""

    def __init__(self):
        self.memory = Memory(20)

    def is_empty(self):
        return len(self.memory) == 0

    def get_data(self, size, transform=None, device=None):
        drawn = self.memory.sample(size)
        return transform(drawn.x).to(device), drawn.y

    def add_data(self, examples, labels):
        self.memory.add(bntricks.Batch(examples, labels))


def test_mammoths_model_replays_from_its_own_buffer_and_ends_in_the_same_bits(monkeypatch):
    class Er:
        NAME = "er"

    ErBnt = defined(monkeypatch, "Mammoth", "ErBnt", er={"Er": Er})
    model = ErBnt()
    model.buffer, model.net, model.loss = Buffer(), network(), cross_entropy
    model.args, model.transform = SimpleNamespace(minibatch_size=8), lambda x: x
    model.device = "cpu"
    for task in range(TASKS):
        model.n_past_classes, model.n_seen_classes = 2 * task, 2 * task + 2
        model.opt = torch.optim.SGD(model.net.parameters(), lr=0.1)
        for x, y in batches(task):
            assert model.observe(x, y, x, epoch=0) > 0
    assert ErBnt.NAME == "er_bnt"
    assert_same(model.net, expected(lr=0.1))


def test_pycils_learner_ends_in_the_same_bits(monkeypatch):
    class Replay:
        def __init__(self):
            self._network, self._device, self._memory_size = network(Logits), "cpu", 20

    ReplayBNT = defined(monkeypatch, "PyCIL", "ReplayBNT", replay={"Replay": Replay})
    learner = ReplayBNT()
    learner.epochs = 1
    for task in range(TASKS):
        learner._known_classes, learner._total_classes = 2 * task, 2 * task + 2
        loader = [(None, x, y) for x, y in batches(task)]
        learner.tricks = learner.tricks or BNTricks(learner._network, memory=20, batch=8)
        learner._train(loader, None)
    assert learner._get_memory() is None
    assert_same(learner._network, expected(lr=0.1, momentum=0.9, weight_decay=2e-4))
