"""`bnt diagnose` and `bnt recalibrate`, as a user types them, with a network of the user's own."""

import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch as safe
import torch
from PIL import Image

from bntricks.cli import app
from bntricks.doctor import Counterfactual, Difference, Repair
from bntricks.doctor.images import Photos, image_groups, normalisation
from bntricks.errors import UserError
from bntricks.streams.files.archive import Folder
from bntricks.streams.files.image_files import class_folders
from helpers.command_line import process

pytestmark = pytest.mark.journey

NETS = """
import torch
from torch import nn

def photo():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * 36, 4))

def grey():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 4))

def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 4))

def five():
    return nn.Sequential(*photo()[:-1], nn.Linear(4 * 36, 5))

def broken():
    raise RuntimeError("no such card")

def leaving():
    raise SystemExit(7)

def empty():
    return nn.Flatten()

def script():
    return torch.jit.script(photo())

def lazy():
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(4))

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = photo()

    def forward(self, pixel_values):
        return {"logits": self.net(pixel_values), "hidden_states": None}

number = 7
"""
COLOURS = {"cat": (200, 40, 40), "dog": (40, 200, 40), "ship": (40, 40, 200), "[b]owl": (9, 9, 9)}
GROUPS = ("--groups", "cat,dog", '["ship", "[b]owl"]')
ours = normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
MINE = ("--net", "doctor_nets:photo", "--weights", "w.pt", "--image-size", "8")
NORMALISED = ("--mean", "0.485", "0.456", "0.406", "--std", "0.229", "0.224", "0.225")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with photographs, a module that builds networks, and weights whose φ is off."""
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(12):
            pixels = (random.integers(0, 50, (10, 10, 3)) + colour).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{index}.png")
    (tmp_path / "doctor_nets.py").write_text(NETS)
    (tmp_path / "doctor_typo.py").write_text("def net():\n    return (")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("doctor_nets", None)
    import doctor_nets

    torch.save(doctor_nets.photo().state_dict(), "w.pt")
    yield tmp_path
    sys.modules.pop("doctor_nets", None)


def photos(folder, groups, names, view):
    source = Folder(folder / "photos")
    return image_groups(Photos(source, class_folders(source)), groups, names, view, size=8)


def bnt(*words):
    app(list(words), exit_on_error=False, print_error=False, result_action="return_value")


def test_a_process_prints_a_verdict_says_what_it_runs_and_writes_a_page(here):
    command = ["diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED]
    done = process(*command, "--out", "page.html", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "importing and running doctor_nets:photo" in done.stderr
    assert "BatchNorm statistics" in done.stdout
    assert "φ 100% newest" in done.stdout
    assert "page written to page.html" in done.stdout
    assert "BatchNorm diagnosis" in (here / "page.html").read_text()


def test_json_is_all_that_goes_to_standard_output(here, capsys):
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED, "--json")
    diagnosis = json.loads(capsys.readouterr().out)
    assert [group["name"] for group in diagnosis["groups"]] == ["cat, dog", "ship, [b]owl"]
    assert [group["classes"] for group in diagnosis["groups"]] == [[1, 2], [0, 3]]
    assert [layer["name"] for layer in diagnosis["layers"]] == ["1"]


def test_classes_are_the_models_order_and_images_can_be_fewer(here, capsys):
    order = json.dumps(["ship", "cat", "dog", "[b]owl"])
    few = ("--images-per-class", "6")
    bnt(
        "diagnose",
        *MINE,
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        "--classes",
        order,
        *few,
        "--json",
    )
    diagnosis = json.loads(capsys.readouterr().out)
    assert [group["classes"] for group in diagnosis["groups"]] == [[1, 2], [0, 3]]
    assert [group["samples"] for group in diagnosis["groups"]] == [12, 12]


def test_a_network_as_hugging_face_saves_it_brings_its_classes_and_preprocessing(here, capsys):
    import doctor_nets

    net, classes = doctor_nets.Wrapped(), ["ship", "cat", "[b]owl", "dog"]
    safe.save_file(net.state_dict(), "model.safetensors")
    Path("config.json").write_text(json.dumps({"id2label": dict(enumerate(classes))}))
    config = {"image_mean": [0.5] * 3, "image_std": [0.3] * 3, "size": {"height": 8, "width": 8}}
    Path("preprocessor_config.json").write_text(json.dumps(config))
    hugging = ["--net", "doctor_nets:Wrapped", "--weights", "model.safetensors", "--classes"]
    hugging += ["config.json", "--preprocessing", "preprocessor_config.json"]
    bnt("diagnose", *hugging, "--data", "photos", *GROUPS, "--json")
    found = json.loads(capsys.readouterr().out)
    torch.save(net.net.state_dict(), "plain.pt")
    plain = [
        "--net",
        "doctor_nets:photo",
        "--weights",
        "plain.pt",
        "--image-size",
        "8",
        "--classes",
    ]
    plain += [",".join(classes), "--mean", "0.5", "0.5", "0.5", "--std", "0.3", "0.3", "0.3"]
    bnt("diagnose", *plain, "--data", "photos", *GROUPS, "--json")
    assert found["counterfactuals"] == json.loads(capsys.readouterr().out)["counterfactuals"]


def test_one_mean_makes_images_grey(here, capsys):
    import doctor_nets

    safe.save_file(doctor_nets.grey().state_dict(), "grey.safetensors")
    net = ("--net", "doctor_nets:grey", "--weights", "grey.safetensors", "--image-size", "8")
    bnt("diagnose", *net, "--mean", "0.4", "--std", "0.2", "--data", "photos", *GROUPS, "--json")
    assert json.loads(capsys.readouterr().out)["layers"][0]["channels"] == 4


def test_recalibration_writes_weights_with_other_statistics_and_says_what_it_gained(here, capsys):
    words = ("recalibrate", *MINE, "--data", "photos", *GROUPS, *NORMALISED)
    bnt(*words, "--out", "new.safetensors", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["path"] == "new.safetensors"
    assert printed["gained"]["all"]["low"] <= printed["gained"]["all"]["points"]
    old, new = torch.load("w.pt", weights_only=True), safe.load_file("new.safetensors")
    assert old.keys() == new.keys()
    for name in old:
        assert torch.equal(old[name], new[name]) == ("running" not in name), name
    moved = ("--net", "doctor_nets:photo", "--weights", "new.safetensors", "--image-size", "8")
    bnt("diagnose", *moved, "--data", "photos", *GROUPS, *NORMALISED, "--json")
    after = json.loads(capsys.readouterr().out)
    assert after["layers"][0]["distance"] < 1e-4
    accuracy = {tried["statistics"]: tried["all"] for tried in after["counterfactuals"]}
    assert accuracy["as it is"] == accuracy["balanced"]


def test_a_repair_that_costs_some_classes_accuracy_is_written_only_on_request(
    here, capsys, monkeypatch
):
    none, loss = Difference(0.0, -1.0, 1.0), Difference(-4.0, -6.0, -2.0)
    found = Counterfactual("balanced", {}, 60.0, 90.0, 67.5, none, loss, none, None)
    monkeypatch.setattr("bntricks.doctor.repair", lambda *given, **how: Repair(found, found, None))
    words = (
        "recalibrate",
        *MINE,
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        "--out",
        "new.safetensors",
    )
    with pytest.raises(UserError, match=r"-4\.0 points on newest classes .* --anyway"):
        bnt(*words)
    assert not (here / "new.safetensors").exists()
    bnt(*words, "--anyway")
    assert "measurably worse: -4.0 points on newest classes" in capsys.readouterr().out
    assert safe.load_file("new.safetensors").keys()


def test_a_file_that_is_there_is_kept_unless_forced(here):
    (here / "new.safetensors").write_text("precious")
    words = (
        "recalibrate",
        *MINE,
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        "--out",
        "new.safetensors",
    )
    with pytest.raises(UserError, match=r"new.safetensors is there already: .* \(force\)"):
        bnt(*words)
    assert (here / "new.safetensors").read_text() == "precious"
    bnt(*words, "--force")
    assert safe.load_file("new.safetensors").keys()


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_statistics_that_cannot_be_can_be_recalibrated(here, value):
    state = torch.load("w.pt", weights_only=True)
    state["1.running_var"][0] = value
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, "w.pt")
    with pytest.raises(UserError, match=r"'1' are (not finite|impossible)"):
        bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED)
    bnt("recalibrate", *MINE, "--data", "photos", *GROUPS, *NORMALISED, "--out", "new.safetensors")
    assert all(value.isfinite().all() for value in safe.load_file("new.safetensors").values())
    assert safe.load_file("new.safetensors")["module.1.running_var"].min() >= 0


TENSORS = {
    "sparse": lambda weight: weight.to_sparse(),
    "meta": lambda weight: weight.to("meta"),
    "complex": lambda weight: weight.to(torch.complex64),
    "whole": lambda weight: weight.long(),
    "nan": lambda weight: weight / 0,
}


def hostile(name):
    """A file of weights that cannot be used."""
    state = torch.load("w.pt", weights_only=True)
    if name == "zip":
        with zipfile.ZipFile("w.pt", "w") as archive:
            archive.writestr("hello.txt", "hello")
    elif name == "truncated":
        Path("w.pt").write_bytes(safe.save(state)[:-40])
    elif name == "cut":
        Path("w.pt").write_bytes(Path("w.pt").read_bytes()[:200])
    elif name == "pipe":
        Path("w.pt").unlink()
        os.mkfifo("w.pt")
    elif name == "pickle":
        torch.save({"net": sys.exit}, "w.pt")
    elif name == "objects":
        torch.save({"a": 1}, "w.pt")
    elif name == "numbered":
        torch.save(dict(enumerate(state.values())), "w.pt")
    elif name in TENSORS:
        state["0.weight"] = TENSORS[name](state["0.weight"])
        torch.save(state, "w.pt")
    elif name == "variance":
        state["1.running_var"][2] = -1
        torch.save(state, "w.pt")
    elif name == "classes":
        state["4.weight"], state["4.bias"] = torch.zeros(10, 144), torch.zeros(10)
        torch.save(state, "w.pt")
    elif name == "keys":
        torch.save({f"backbone.{k}s": v for k, v in state.items()}, "w.pt")
    elif name == "text":
        Path("w.pt").write_text("weights, honest")
    elif name == "absent":
        Path("w.pt").unlink()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zip", "w.pt holds no weights that can be read"),
        ("truncated", "w.pt holds no weights that can be read"),
        ("cut", "w.pt holds no weights that can be read"),
        ("pipe", "cannot read w.pt: it is not a regular file"),
        (
            "pickle",
            "w.pt holds no weights that can be read: .* it has a sys.exit, and to read that",
        ),
        ("objects", r"w.pt is not a state dict: save net.state_dict\(\) alone"),
        ("numbered", r"w.pt is not a state dict: save net.state_dict\(\) alone"),
        ("sparse", "cannot use the weights w.pt: 0.weight is sparse or quantised"),
        ("meta", r"0.weight has a shape, but no values \(a meta tensor\)"),
        ("complex", "0.weight holds complex numbers, where the network has floating-point ones"),
        ("whole", "0.weight holds whole numbers, where the network has floating-point ones"),
        ("nan", "0.weight holds NaN or infinity"),
        ("variance", r"statistics of layer '1' are impossible \(a negative variance\): reset them"),
        ("classes", r"4.weight is \[10, 144\] in the file and \[4, 144\] in the network"),
        ("keys", "it lacks 0.weight, 0.bias, 1.weight and 5 more"),
        ("text", "w.pt holds no weights that can be read"),
        ("absent", "cannot read w.pt: No such file"),
    ],
)
@pytest.mark.fault
def test_hostile_weights_are_one_clear_line(here, name, message):
    hostile(name)
    with pytest.raises(UserError, match=message) as raised:
        bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--net": "doctor_nets"}, "net doctor_nets: write it as package.module:function"),
        ({"--net": "doctor_nots:photo"}, "importing doctor_nots raised ModuleNotFoundError"),
        ({"--net": "doctor_nets:photos"}, "doctor_nets has no photos"),
        ({"--net": "doctor_nets:number"}, "number of doctor_nets is not a function"),
        ({"--net": "doctor_nets:broken"}, r"RuntimeError: no such card \(.*nets.py, line 20\)"),
        ({"--net": "doctor_nets:leaving"}, "calling it raised SystemExit: 7"),
        ({"--net": "doctor_nets:empty"}, "the network has no weights to load"),
        ({"--net": "doctor_typo:net"}, r"SyntaxError: .* \(.*doctor_typo.py, line 2\)"),
        ({"--net": "doctor_nets:script"}, "TorchScript hides its layers; give the module that it"),
        ({"--net": "doctor_nets:lazy"}, "its layers are lazy: pass it a sample before"),
        ({"--net": "builtins:dict"}, "it returned a dict, not a torch.nn.Module"),
        ({"--net": None}, "give either MODEL, or --net package.module:function"),
        ({"--groups": None}, "groups: it is required .*: list the classes in the order"),
        ({"--groups": "cat,dog"}, "groups: the doctor compares at least two groups: list the"),
        (
            {"--groups": "cat,[b]eagle"},
            r"groups: '\[b\]eagle' is not a class of the model; its classes are",
        ),
        (
            {"--groups": "cat,eagle", "--classes": "cat,dog,eagle"},
            "data: 'eagle' has no folder in the data; there are",
        ),
        ({"--classes": "cat,dog"}, "groups: 'ship' is not a class of the model"),
        ({"--image-size": "32"}, r"take images of \[3, 32, 32\]: RuntimeError.*\(image_size\)"),
        ({"--mean": "0.5", "--std": "0.5"}, r"to have 3 channels, .* make images grey.* \(mean\)"),
        ({"--mean": "123 117 104"}, "mean 123: a mean of pixels is from 0 to 1"),
        ({"--mean": "0.5"}, "mean: 1 mean and 3 standard deviations: give three of each"),
        ({"--mean": None}, "mean: it is required for a network of your own, with --std or by"),
        ({"--std": None}, "std: it is required for a network of your own"),
        ({"--mean": "nan 0 0"}, "mean nan: a mean of pixels is from 0 to 1"),
        ({"--std": "0.1 nan 0.1"}, "std nan: a standard deviation is above 0"),
        ({"--std": "0.1 0 0.1"}, "std 0: a standard deviation is above 0"),
        ({"--out": "no/page.html"}, "the folder no does not exist: make it first"),
        ({"--data": "nowhere"}, "the data folder nowhere does not exist"),
    ],
)
def test_what_the_user_got_wrong_is_one_clear_line(here, change, message):
    words = dict(zip(MINE[::2], MINE[1::2], strict=True)) | {"--data": "photos"}
    words |= {"--mean": "0.485 0.456 0.406", "--std": "0.229 0.224 0.225"} | change
    groups = () if "--groups" in change else GROUPS
    flat = [
        part
        for flag, value in words.items()
        if value is not None
        for part in (flag, *(value.split() if flag in ("--mean", "--std") else [value]))
    ]
    with pytest.raises(UserError, match=message) as raised:
        bnt("diagnose", *flat, *groups)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), r"has 5 outputs and the folders name 4 classes: name all .* \(classes\)"),
        (("--classes", '["cat", "dog", "ship", "[b]owl", "a", "b"]'), "and the list names 6 class"),
    ],
)
def test_a_network_with_other_outputs_than_classes_is_not_judged(here, options, message):
    import doctor_nets

    torch.save(doctor_nets.five().state_dict(), "w.pt")
    five = (
        "--net",
        "doctor_nets:five",
        *MINE[2:],
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        *options,
    )
    with pytest.raises(UserError, match=message):
        bnt("diagnose", *five)
    with pytest.raises(UserError, match=message):
        bnt("recalibrate", *five, "--out", "new.safetensors")
    assert not (here / "new.safetensors").exists()


def test_a_function_may_return_the_network_with_its_weights(here, capsys):
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED, "--json")
    loaded = capsys.readouterr().out
    own = ("--net", "doctor_nets:photo", "--image-size", "8")  # of the seed that w.pt is of
    bnt("diagnose", *own, "--data", "photos", *GROUPS, *NORMALISED, "--json")
    assert capsys.readouterr().out == loaded


@pytest.mark.parametrize("out", ["w.pt", "./w.pt", "link", "names.txt", "photos/cat/0.png"])
def test_what_a_command_reads_is_not_what_it_writes(here, out):
    (here / "link").symlink_to("w.pt")
    (here / "names.txt").write_text("\n".join(sorted(COLOURS)))
    before = Path(out).read_bytes()
    words = (
        *MINE,
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        "--classes",
        "names.txt",
        "--out",
        out,
    )
    for command in (("diagnose",), ("recalibrate", "--force")):
        with pytest.raises(UserError, match="is an input of this command"):
            bnt(*command, *words)
    assert Path(out).read_bytes() == before


def test_class_folders_that_no_group_lists_may_be_empty(here, capsys):
    (here / "photos" / "later").mkdir()
    order = ("--classes", json.dumps(sorted(COLOURS)))
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED, *order, "--json")
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 2
    for file in (here / "photos" / "cat").iterdir():
        file.unlink()
    with pytest.raises(UserError, match=r"'cat' .* has no images: .* one to estimate moments and"):
        bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED, *order)


def test_a_network_without_batchnorm_has_nothing_to_examine(here):
    import doctor_nets

    torch.save(doctor_nets.plain().state_dict(), "w.pt")
    net = ("--net", "doctor_nets:plain", "--weights", "w.pt", "--image-size", "8")
    with pytest.raises(UserError, match="nothing to examine in this Sequential: it has no BatchN"):
        bnt("diagnose", *net, "--data", "photos", *GROUPS, *NORMALISED)


def test_an_image_that_cannot_be_read_is_named(here):
    (here / "photos" / "cat" / "0.png").write_text("no image")
    with pytest.raises(UserError, match=r"cannot read the image photos/cat/0\.png.*skip_unre"):
        bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED)


def test_images_that_cannot_be_read_can_be_left_out(here, capsys):
    (here / "photos" / "cat" / "0.png").write_text("no image")
    threads = ("--device", "cpu", "--threads", "1")
    bnt(
        "diagnose",
        *MINE,
        "--data",
        "photos",
        *GROUPS,
        *NORMALISED,
        *threads,
        "--skip-unreadable",
        "--json",
    )
    printed = capsys.readouterr()
    assert printed.err.count("photos/cat/0.png") == 1
    assert [group["samples"] for group in json.loads(printed.out)["groups"]] == [23, 24]
    with pytest.raises(UserError, match="cuda:99"):
        bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *NORMALISED, "--device", "cuda:99")


@pytest.fixture
def wrong_order(here):
    """Options by which the outputs of a trained network are taken for other classes."""
    import doctor_nets

    names = sorted(COLOURS)
    groups = photos(here, [names[:2], names[2:]], names, ours)
    x, y = (
        torch.cat(part) for part in zip(*(b for g in groups.values() for b in g()), strict=True)
    )
    net = doctor_nets.photo()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    torch.save(net.state_dict(), "w.pt")
    wrong = json.dumps([*names[1:], names[0]])
    return (*MINE, "--data", "photos", *GROUPS, *NORMALISED, "--classes", wrong)


def test_a_wrong_order_of_classes_is_said_first_with_a_hint_that_can_be_typed(wrong_order, capsys):
    bnt("diagnose", *wrong_order)
    printed = capsys.readouterr().out
    assert printed.startswith("The outputs seem to be in the wrong order")
    assert f"--classes '{json.dumps(sorted(COLOURS))}'" in printed


def test_a_network_with_outputs_in_the_wrong_order_is_repaired_only_on_request(
    here, wrong_order, capsys
):
    with pytest.raises(UserError, match=r"in the wrong order: .* nothing was written: .* --anyway"):
        bnt("recalibrate", *wrong_order, "--out", "new.safetensors")
    assert not (here / "new.safetensors").exists()
    bnt("recalibrate", *wrong_order, "--out", "new.safetensors", "--anyway")
    assert "The outputs seem to be in the wrong order" in capsys.readouterr().out
    assert (here / "new.safetensors").exists()


@pytest.fixture
def trained(here):
    """Weights that learned the photographs as ImageNet's normalisation makes them."""
    import doctor_nets

    names = sorted(COLOURS)
    groups = photos(here, [names[:2], names[2:]], names, ours)
    x, y = (
        torch.cat(part) for part in zip(*(b for g in groups.values() for b in g()), strict=True)
    )
    torch.save({"epoch": 3, "state_dict": fitted(doctor_nets.photo(), x, y)}, "w.pt")


def fitted(net, x, y):
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(40):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return {f"model.{name}": value for name, value in net.state_dict().items()}


RAW = ("--mean", "0", "0", "0", "--std", "1", "1", "1")


def test_a_wrong_normalisation_is_answered_with_the_right_one(trained, capsys):
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *RAW)
    printed = capsys.readouterr().out
    assert printed.startswith("The images seem to be prepared otherwise than in training")
    named = printed.split("a normalisation that fits: ")[1].split()
    assert named[:1] == ["--mean"]
    assert named[4:5] == ["--std"]
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *named[:8], "--json")
    again = json.loads(capsys.readouterr().out)
    assert again["input_change"] is None
    bnt("diagnose", *MINE, "--data", "photos", *GROUPS, *RAW, "--json")
    change = json.loads(capsys.readouterr().out)["input_change"]
    assert [f"{value:.3g}" for value in change["mean"]] == named[1:4]


def test_a_network_is_not_recalibrated_to_a_wrong_normalisation_unless_asked(here, trained, capsys):
    words = ("recalibrate", *MINE, "--data", "photos", *GROUPS, *RAW, "--out", "fixed.pt")
    with pytest.raises(UserError, match=r"otherwise than in .* nothing was written: .* --mean 0"):
        bnt(*words)
    assert not (here / "fixed.pt").exists()
    bnt(*words, "--anyway")
    before, after = (torch.load(name, weights_only=True) for name in ("w.pt", "fixed.pt"))
    assert list(after) == ["epoch", "state_dict"]
    assert list(after["state_dict"]) == list(before["state_dict"])
    moved = [
        k for k, v in before["state_dict"].items() if not torch.equal(v, after["state_dict"][k])
    ]
    assert moved == ["model.1.running_mean", "model.1.running_var"]


def test_recalibration_writes_balanced_statistics_on_request(here, trained, capsys):
    words = ("recalibrate", *MINE, "--data", "photos", *GROUPS, *NORMALISED, "--json")
    bnt(*words, "--phi", "balanced", "--anyway", "--out", "fixed.pt")
    assert json.loads(capsys.readouterr().out)["statistics"] == "balanced"


def test_a_model_that_bnt_taught_knows_its_tasks_and_comes_back_recalibrated(here, capsys):
    tiny = ("--image-size", "8", "--width", "2", "--stages", "2", "--blocks", "1")
    for part, names, made in (("one", ("cat", "dog"), tiny), ("two", ("ship", "[b]owl"), ())):
        (here / part).mkdir()
        for name in names:
            (here / "photos" / name).rename(here / part / name)
        bnt("learn", part, "--into", "m.safetensors", "--epochs", "1", *made)
        for name in names:
            (here / part / name).rename(here / "photos" / name)
    capsys.readouterr()
    bnt("diagnose", "m.safetensors", "--data", "photos", "--json")
    diagnosis = json.loads(capsys.readouterr().out)
    assert [set(group["name"].split(", ")) for group in diagnosis["groups"]] == [
        {"cat", "dog"},
        {"ship", "[b]owl"},
    ]
    assert len(diagnosis["layers"]) == 6
    for option, value in (("--classes", "cat,dog"), ("--mean", "0.5"), ("--image-size", "8")):
        with pytest.raises(UserError, match="a MODEL has its own"):
            bnt("diagnose", "m.safetensors", "--data", "photos", option, value)
    bnt("recalibrate", "m.safetensors", "--data", "photos", "--out", "m2.safetensors")
    capsys.readouterr()
    bnt("diagnose", "m2.safetensors", "--data", "photos", "--json")
    after = json.loads(capsys.readouterr().out)
    assert max(layer["distance"] for layer in after["layers"]) < 1e-3
    with pytest.raises(UserError, match=r"m2.safetensors is there already"):
        bnt("recalibrate", "m.safetensors", "--data", "photos", "--out", "m2.safetensors")
    with pytest.raises(UserError, match=r"w.pt: .*safetensors"):
        bnt("diagnose", "w.pt", "--data", "photos")


def test_every_image_goes_with_its_own_label_in_mixed_order(here):
    names = list(COLOURS)
    groups = photos(here, [["cat", "ship"], ["dog"]], names, lambda x: x.float())
    for _ in range(2):
        x, y = (torch.cat(part) for part in zip(*groups["cat, ship"](), strict=True))
        brightest = x.mean((2, 3)).argmax(1)  # red cats, blue ships
        assert torch.equal(y, torch.where(brightest == 0, 0, 2))
        assert sorted(y.tolist()) == [0] * 12 + [2] * 12 != y.tolist()


def test_a_class_in_two_groups_is_refused(here):
    with pytest.raises(UserError, match="groups: 'cat' is listed twice"):
        bnt("diagnose", *MINE, *NORMALISED, "--data", "photos", "--groups", "cat,dog", "ship,cat")
