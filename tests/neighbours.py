"""The code of `docs/coming-from.md` for Avalanche and Lightning, run by the packages themselves, in
an environment of its own: `make test-neighbours`."""

import importlib
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bntricks import BNTricks

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
TASKS = [[0, 1], [2, 3], [4, 5]]


def names_of(framework):
    """What the page's code for this framework defines."""
    part = PAGE.read_text(encoding="utf-8").split(f"\n## {framework}\n")[1].split("\n## ")[0]
    names = {"__name__": "page"}
    for block in re.findall(r"^```py\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))


def samples(classes, count=48):
    random = torch.Generator().manual_seed(classes[0])
    y = torch.tensor(classes).repeat(count // len(classes))
    return 3 * torch.eye(6)[y][:, :5] + torch.randn(count, 5, generator=random), y


def loop(batches, size):
    """A plain loop over the batches that a framework has made, task after task."""
    net = network()
    tricks = BNTricks(net, memory=20, batch=size)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for classes, x, y in batches:
        if tricks.lesson.new != tuple(classes):
            tricks.begin(classes)
        optimiser.zero_grad()
        tricks.step(x, y, cross_entropy).backward()
        optimiser.step()
    return net


def assert_same(net, other):
    for name, value in net.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.fixture
def torchvision():
    """Import torchvision, also where it was built for another PyTorch and lacks its operators."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision"), library  # which is undone if it goes


@pytest.mark.usefixtures("torchvision")
def test_the_avalanche_plugin_ends_in_the_bits_of_a_plain_loop():
    from avalanche.benchmarks import tensors_benchmark
    from avalanche.training.plugins import SupervisedPlugin
    from avalanche.training.supervised import Naive

    class Spy(SupervisedPlugin):
        def before_training_exp(self, strategy, **kwargs):
            self.classes = sorted(strategy.experience.classes_in_this_experience)

        def before_forward(self, strategy, **kwargs):
            batches.append((self.classes, strategy.mb_x.clone(), strategy.mb_y.clone()))

    batches, net = [], network()
    parts = [samples(classes) for classes in TASKS]
    benchmark = tensors_benchmark(parts, parts, task_labels=[0] * len(parts))
    plugin = names_of("Avalanche")["BNTricksPlugin"](mem_size=20, batch_size_mem=8)
    strategy = Naive(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=12,
        train_epochs=2,
        eval_mb_size=48,
        plugins=[plugin, Spy()],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
        strategy.eval(benchmark.test_stream)
    assert len(batches) == net[1].num_batches_tracked == 3 * 2 * 4
    assert plugin.old == [0, 1, 2, 3]
    assert_same(net, loop(batches, size=8))


def test_the_lightning_module_resumes_to_the_bits_of_a_plain_loop(tmp_path):
    import lightning

    Incremental = names_of("PyTorch Lightning")["Incremental"]

    class Spied(Incremental):
        def training_step(self, batch, batch_index):
            batches.append((self.tricks.lesson.new, *batch))
            return super().training_step(batch, batch_index)

    def task(module, classes):
        module.tricks.begin(classes)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*samples(classes)),
            batch_size=12,
            shuffle=True,
            generator=torch.Generator().manual_seed(0),
        )
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, loader)
        trainer.save_checkpoint(tmp_path / "last.ckpt")

    batches, first = [], Spied(network(), memory=20, lr=0.1)
    first.tricks.batch = 8
    task(first, TASKS[0])
    task(first, TASKS[1])
    second = Spied.load_from_checkpoint(tmp_path / "last.ckpt", net=network(), memory=20, lr=0.1)
    second.tricks.batch = 8
    task(second, TASKS[2])
    assert len(batches) == 3 * 2 * 4
    assert_same(second.net, loop(batches, size=8))
