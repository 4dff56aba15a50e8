"""`bnt learn` around a network that was trained elsewhere, as a user types it."""

import json
import sys

import pytest
import safetensors.torch as safe
import torch
from torch import nn

from bntricks import Model, UserError
from bntricks.cli.adopt import listed_classes
from helpers.colours import FIRST, SECOND, pictures, write_folder

NETS = """
from types import SimpleNamespace
from torch import nn

def body():
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten())

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = body(), nn.Linear(216, 3)
        self.aux = nn.Linear(216, 3)  # after the head, and used in training alone

    def forward(self, x):
        return self.fc(self.body(x))

class Wrapped(Plain):
    def forward(self, pixel_values):
        return SimpleNamespace(logits=super().forward(pixel_values))

class Twice(Plain):
    def __init__(self):
        super().__init__()
        self.distilled = nn.Linear(216, 3)

    def forward(self, x):
        return (super().forward(x) + self.distilled(self.body(x))) / 2

class Deep(Plain):
    def forward(self, x):
        return self.fc(self.body(x))[..., None]

class Auxiliary(Plain):
    def forward(self, x):
        scores = super().forward(x)
        return (scores, self.aux(self.body(x))) if self.training else scores

class Finished(Plain):
    def forward(self, x):
        if self.training:
            raise ValueError("training is over")
        return super().forward(x)

class Grey(Plain):
    def __init__(self):
        super().__init__()
        self.body[0] = nn.Conv2d(1, 6, 3)

class Talking(Plain):
    def __init__(self):
        super().__init__()
        print("building")

    def forward(self, x):
        print("asked")
        return super().forward(x)

def half():
    return Plain().half()

def frozen():
    return Plain().requires_grad_(False)
"""
BATCH = ("--epochs", 3, "--batch", 8, "--memory", 24)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Photographs, a module that builds networks, and weights trained in plain PyTorch."""
    write_folder(tmp_path / "old", FIRST)
    write_folder(tmp_path / "new", SECOND[:1])
    (tmp_path / "elsewhere_nets.py").write_text(NETS)
    (tmp_path / "names.txt").write_text("\n".join(FIRST) + "\n")
    told = {"image_mean": [0.5] * 3, "image_std": [0.3] * 3, "size": {"height": 8, "width": 8}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    (tmp_path / "black.json").write_text(json.dumps(told | {"image_std": [0.3, 0.0, 0.3]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("elsewhere_nets", None)
    import elsewhere_nets

    torch.manual_seed(0)
    net = elsewhere_nets.Plain()
    x = torch.cat([torch.from_numpy(pictures(name)) for name in FIRST])
    y = torch.arange(3).repeat_interleave(12)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net((x / 255 - 0.5) / 0.3), y).backward()
        optimiser.step()
    safe.save_file(net.state_dict(), "w.safetensors")
    yield net.eval()
    sys.modules.pop("elsewhere_nets", None)


def flags(kind="Plain", **changes):
    words = {
        "--net": f"elsewhere_nets:{kind}",
        "--weights": "w.safetensors",
        "--classes": "names.txt",
        "--old-images": "old",
        "--old-tests": "old",
        "--preprocessing": "preprocessor_config.json",
    } | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return [part for flag, value in words.items() if value is not None for part in (flag, value)]


@pytest.mark.parametrize("net", ["Plain", "Wrapped"])
def test_a_trained_network_goes_on_from_the_command_line(bnt, here, net):
    done = bnt("learn", "new", "--into", "m", *flags(net), *BATCH, "--json")
    assert done.code == 0, done.err
    learned = json.loads(done.out)
    assert [task["classes"] for task in learned["tasks"]] == [list(FIRST), [SECOND[0]]]
    assert learned["tasks"][0]["before"] > 90
    import elsewhere_nets

    loaded = Model.load("m", net=getattr(elsewhere_nets, net))
    assert loaded.metadata.shape == (3, 8, 8)
    assert loaded.metadata.view.mean == (0.5, 0.5, 0.5)
    assert loaded.net.fc.out_features == 4
    assert loaded.net.aux.out_features == 3
    done = bnt("predict", "m", "new", "--net", f"elsewhere_nets:{net}", "--json")
    assert {answer["label"] for answer in json.loads(done.out)} <= {*FIRST, *SECOND}
    done = bnt("learn", "old", "--into", "m", *flags(net))
    assert "already exists" in done.err
    assert "--weights" in done.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": None}, ["--classes", "missing"]),
        ({"classes": "cat,dog"}, ["2 class names", "3 outputs"]),
        ({"classes": "none.txt"}, ["none.txt"]),
        ({"classes": "names"}, ["--classes", "there is 1 class name", "(no file 'names' exists)"]),
        ({"classes": "T-shirt/top,dog"}, ["2 class names"]),
        ({"preprocessing": None, "mean": "0", "std": "0"}, ["--std 0.0: input should be"]),
        ({"preprocessing": None}, ["--mean", "--preprocessing", "(ImageNet)"]),
        ({"preprocessing": None, "mean": "0.5"}, ["--std", "--preprocessing"]),
        ({"preprocessing": "black.json"}, ["black.json", "standard deviation is [0.3, 0.0, 0.3]"]),
        ({"old_images": None}, ["er-even-bnt rehearses old images"]),
        ({"net": None}, ["--classes", "--net package.module:function"]),
        ({"mean": "0.5"}, ["--preprocessing", "leave those out"]),
        ({"preprocessing": "names.txt"}, ["names.txt", "config.json"]),
        ({"image_size": "32"}, ["cannot take images of [3, 32, 32]", "--image-size"]),
        ({"net": "elsewhere_nets:Deep"}, ["returns [2, 3, 1] for two images"]),
        ({"net": "elsewhere_nets:Twice", "weights": None}, ["builds it with one classifier"]),
        ({"net": "elsewhere_nets:Auxiliary"}, ["in training mode the network returns a tuple"]),
        ({"net": "elsewhere_nets:Finished"}, ["cannot be trained: ValueError: training is over ("]),
        ({"net": "elsewhere_nets:half"}, ["float16", "call .float()"]),
        ({"net": "elsewhere_nets:frozen"}, ["are frozen", "call .requires_grad_()"]),
        ({"weights": "names.txt"}, ["names.txt holds no weights that can be read"]),
        ({"width": "4"}, ["--width", "our own ResNet"]),
    ],
)
def test_what_does_not_fit_is_a_line_and_nothing_is_written(bnt, here, tmp_path, changes, words):
    done = bnt("learn", "new", "--into", "m", *flags(**changes))
    assert done.code == 2
    said = done.err.replace("bnt: importing and running", "").strip().splitlines()
    assert len(said) <= 2, done.err
    for word in words:
        assert word in said[-1]
    assert not (tmp_path / "m").exists()


def test_classes_are_a_file_or_names_of_any_number_and_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    many = [f"class {number}" for number in range(200)]
    assert listed_classes(",".join(many)) == many
    assert listed_classes("T-shirt/top,dog") == ["T-shirt/top", "dog"]
    assert listed_classes('["a/b.txt"]') == ["a/b.txt"]
    (tmp_path / "cat,dog").write_text("owl\n")
    assert listed_classes("cat,dog") == ["owl"]
    with pytest.raises(UserError, match="cannot read names/none: No such file"):
        listed_classes("names/none")


@pytest.mark.parametrize("tests", ["old", None])
def test_classes_in_a_wrong_order_get_a_hint_before_any_training(bnt, here, tests):
    crimson, gruen, navy = FIRST
    wrong = json.dumps([navy, crimson, gruen])
    done = bnt("learn", "new", "--into", "m", *flags(classes=wrong, old_tests=tests), *BATCH)
    hint = next(line for line in done.err.splitlines() if "check their order" in line)
    assert f"--classes '{json.dumps(list(FIRST), ensure_ascii=False)}'" in hint
    done = bnt("learn", "new", "--into", "m2", *flags(old_tests=tests), *BATCH)
    assert "order" not in done.err


def test_a_network_for_grey_images_is_not_sent_to_look_for_another_size(bnt, here):
    done = bnt("learn", "new", "--into", "m", *flags("Grey", weights=None))
    assert "to have 1 channels, but got 3 channels" in done.err
    assert "its first layer takes 3 channels" in done.err
    assert "--image-size" not in done.err


def test_two_means_are_refused_without_a_dump_of_everything_else(bnt, here):
    options = flags(preprocessing=None, image_size=8)
    done = bnt("learn", "new", "--into", "m", *options, "--mean", "0.5", "0.5", "--std", "0.3")
    said = "bnt: --mean 0.5 0.5: images have 3 channels: give a value for each, or one for all"
    assert done.err.splitlines()[-1] == said


def test_what_a_network_prints_does_not_come_between_a_program_and_its_json(bnt, here):
    done = bnt("learn", "new", "--into", "m", *flags("Talking"), *BATCH, "--json")
    assert json.loads(done.out)["path"] == "m"
    assert "building" in done.err
    assert "asked" in done.err
    done = bnt("predict", "m", "new", "--net", "elsewhere_nets:Talking", "--json")
    assert len(json.loads(done.out)) == 12
    assert "asked" in done.err


def test_what_an_imported_file_prints_does_not_either(bnt, tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.plugins.imports._LOADED", {})
    (tmp_path / "mine.py").write_text("print('imported')")
    done = bnt("methods", "--json", "--import", tmp_path / "mine.py")
    assert len(json.loads(done.out)) > 5
    assert done.err == "imported\n"


@pytest.mark.fault
def test_a_pickle_is_never_loaded(bnt, here, tmp_path):
    torch.save(here, "whole.pt")  # the network itself, as many people save it
    done = bnt("learn", "new", "--into", "m", *flags(weights="whole.pt"))
    assert done.code == 2
    assert "whole.pt holds no weights that can be read" in done.err
