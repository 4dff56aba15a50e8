"""What onnxruntime says of an exported model is what the loaded says."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from bntricks import Model, UserError
from bntricks.cli.models import check_target
from bntricks.streams import Images
from helpers.colours import FIRST, SECOND, pictures
from helpers.crash_points import crash_points
from helpers.pages import DOCS, python_blocks


def hear(event):
    """Somebody else's progress."""


def ask(path, x):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    said = session.get_modelmeta().custom_metadata_map
    return session.run(["probabilities"], {"images": x.numpy()})[0], json.loads(said["classes"])


@pytest.mark.slow
def test_a_linear_model_is_exported_with_its_normalisation_and_names(bnt, model, tmp_path):
    loaded = Model.load(model)
    loaded.learn({name: pictures(name) for name in SECOND}, epochs=4, sink=hear)
    hostile = {**loaded.metadata.versions, "classes": "none"}
    loaded.metadata = loaded.metadata.model_copy(update={"versions": hostile})
    loaded.save(model)
    done = bnt("export", model, "--onnx", tmp_path / "m.onnx")
    assert done.code == 0, done.err
    assert "agree to" in done.out
    noise = torch.randint(256, (9, 3, 8, 8), dtype=torch.uint8)
    real = torch.cat([torch.from_numpy(pictures(name, 5)) for name in (*FIRST, *SECOND)])
    for x in (noise, real, real[:1]):
        found, names = ask(tmp_path / "m.onnx", x)
        assert names == [*FIRST, *SECOND]
        assert np.abs(found - loaded.predict_proba(x).numpy()).max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("crop", "interpolation"), [(1.0, "area"), (0.8, "bicubic")])
@pytest.mark.parametrize("size", [(61, 40), (5, 7)])
def test_the_reader_of_the_docs_answers_as_the_model_does(
    model, tmp_path, monkeypatch, crop, interpolation, size
):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "your-model.md").read_text(encoding="utf-8")
    (reader,) = [code for _, code in python_blocks(page) if "InferenceSession" in code]
    loaded = Model.load(model)
    view = loaded.metadata.view.model_copy(update={"crop": crop, "interpolation": interpolation})
    changes = {"view": view, "temperature": 2.5}
    loaded.metadata = loaded.metadata.model_copy(update=changes)
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(noise).save("a.jpg", exif=turned)
    names = {"model": loaded}
    exec(compile(reader, "docs", "exec"), names)
    wanted = loaded.predict_proba(["a.jpg"])[0].numpy()
    assert np.abs(names["probabilities"][0] - wanted).max() < 1e-4
    assert names["names"] == list(FIRST)


@pytest.mark.slow
def test_a_nearest_mean_classifier_is_exported_too(tmp_path):
    from bntricks.model.create import create
    from bntricks.model.learn import teach
    from bntricks.model.samples import gather

    samples = gather({name: pictures(name) for name in FIRST}, size=8, held_out=0.2)
    loaded = create(samples, width=4, blocks=1, stages=2, memory=9, method="icarl")
    teach(loaded, samples, epochs=2, lr=None, sink=hear)
    assert loaded.export(tmp_path / "m.onnx") < 1e-4
    x = torch.from_numpy(pictures("navy", 5, seed=4))
    found, _ = ask(tmp_path / "m.onnx", x)
    assert np.abs(found - loaded.predict_proba(x).numpy()).max() < 1e-4


@pytest.mark.slow
def test_an_adopted_network_that_takes_inputs_is_exported_as_it_is(tmp_path):
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    loaded = Model.adopt(net, classes=["a", "b"], memory=(torch.randn(4, 5), "aabb"))
    loaded.export(tmp_path / "m.onnx")
    x = torch.randn(3, 5)
    found, names = ask(tmp_path / "m.onnx", x)
    assert names == ["a", "b"]
    assert np.abs(found - net(x).softmax(1).detach().numpy()).max() < 1e-4


@pytest.mark.parametrize("off", [1e-3, np.nan])
def test_a_file_that_disagrees_is_not_written(model, off):
    from bntricks.model.export import check_agreement

    loaded = Model.load(model)
    with pytest.raises(Exception, match="nothing was written"):
        check_agreement(loaded, lambda x: loaded.predict_proba(x) + np.float32(off))


def test_a_torch_file_answers_alike_and_names_its_classes(bnt, model, tmp_path):
    done = bnt("export", model, "--pt2", tmp_path / "m.pt2")
    assert done.code == 0, done.err
    extra = {"classes.json": "", "model.json": ""}
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
    assert json.loads(extra["classes.json"]) == list(FIRST)
    about = json.loads(extra["model.json"])
    assert about["input"]["shape"] == ["N", 3, 8, 8]
    assert (about["threshold"], about["temperature"]) == (None, 1.0)
    assert not {"mean", "std", "view"} & {*about, *about["input"]}
    x = torch.from_numpy(pictures("navy", 5, seed=4))
    assert (program(x)[1] - Model.load(model).predict_proba(x)).abs().max() < 1e-4


def test_a_card_says_what_was_learned_and_how_well_in_safe_markdown(bnt, model, tmp_path):
    loaded = Model.load(model)
    loaded.learn({name: pictures(name) for name in SECOND}, epochs=1, sink=hear)
    loaded.save(model)
    assert bnt("export", model, "--card", tmp_path / "card.md").code == 0
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("# model.safetensors")
    for number, task in enumerate(loaded.metadata.taught, start=1):
        assert f"| {number} | {task.date} | learned " in card
    assert "| white \\[bold\\] | 2 | " in card
    assert "On 12 held-out images" in card
    assert "BatchNorm statistics" in card.split("## BatchNorm")[1]
    held_out = loaded.held_out
    loaded.held_out = Images(held_out.x[held_out.y > 0], held_out.y[held_out.y > 0])
    assert "Not measured: there are no test images of crimson." in loaded.card()
    loaded.held_out = None
    assert "Not measured" in loaded.card()


def test_without_the_extra_a_line_says_what_to_install(refused, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    refused("export", model, "--onnx", tmp_path / "m.onnx", words=["pip install 'bntricks[onnx]'"])
    assert not (tmp_path / "m.onnx").exists()


def test_an_export_needs_somewhere_else_to_go(refused, model, tmp_path):
    refused("export", model, words=["--onnx FILE"])
    refused("export", model, "--pt2", tmp_path / "m.onnx", words=["--pt2", "ends in .pt2"])
    refused("export", model, "--onnx", tmp_path / "m.pt2", words=["--onnx", "ends in .onnx"])
    refused("export", model, "--onnx", tmp_path / "no" / "m", words=["does not exist"])


def test_an_export_replaces_neither_its_model_nor_what_it_was_not_told_to_replace(
    bnt, refused, model, tmp_path
):
    before, photo = model.read_bytes(), tmp_path / "keep.png"
    photo.write_bytes(b"a photo")
    (tmp_path / "link").symlink_to(model)
    for path in (model, tmp_path / "link", tmp_path / "first" / ".." / model.name):
        words = ["is an input of this command"]
        refused("export", model, "--safetensors", path, "--force", words=words)
    refused("export", model, "--card", photo, words=["is there already", "--force"])
    assert (model.read_bytes(), photo.read_bytes()) == (before, b"a photo")
    assert bnt("export", model, "--card", photo, "--force").code == 0
    assert photo.read_bytes().startswith(b"# model")


def test_two_exports_do_not_go_into_one_file(refused, model, tmp_path):
    flags = ["--safetensors", tmp_path / "same", "--card", tmp_path / "." / "same"]
    refused("export", model, *flags, words=["is to be written twice"])
    assert not (tmp_path / "same").exists()


def test_a_file_in_a_folder_of_inputs_is_not_replaced(first, tmp_path):
    photo = next((first / "navy").iterdir())
    with pytest.raises(UserError, match="is an input of this command"):
        check_target(photo, inputs=[None, first])
    check_target(first / "new.html", inputs=[first])
    check_target(photo)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        return self.head(x) if x.mean() > 0 else -self.head(x)


@pytest.mark.parametrize("kind", [pytest.param("onnx", marks=pytest.mark.slow), "pt2"])
def test_a_network_that_cannot_be_traced_is_one_line_that_names_the_place(kind, tmp_path, capfd):
    if kind == "onnx":
        pytest.importorskip("onnxscript")
    loaded = Model.adopt(Branching(), classes=["a", "b"], memory=(torch.randn(4, 5), "aabb"))
    with pytest.raises(UserError, match="cannot trace this network: ") as raised:
        loaded.export(tmp_path / f"m.{kind}")
    assert "test_export.py, line " in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.fault
def test_an_export_that_was_killed_is_completed_by_the_same_command(bnt, refused, model, tmp_path):
    files = [tmp_path / "small.safetensors", tmp_path / "card.md"]
    command = ("export", model, "--safetensors", files[0], "--card", files[1])
    assert bnt(*command).code == 0
    whole = [path.read_bytes() for path in files]
    for path in files:  # killed before it was renamed
        path.rename(path.with_name(f".{path.name}.0123abcd.partial"))
        assert bnt(*command).code == 0
        assert [each.read_bytes() for each in files] == whole
        assert not [*tmp_path.glob(".*.partial")]
    files[0].write_bytes(b"a file of somebody's")
    files[1].unlink()
    refused(*command, words=["small.safetensors is there already", "--force"])
    assert files[0].read_bytes() == b"a file of somebody's"
    assert not files[1].exists()


@pytest.mark.slow
@pytest.mark.fault
def test_a_kill_at_any_point_of_an_export_is_mended_by_the_same_command(bnt, model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    files = {"--pt2": out / "m.pt2", "--safetensors": out / "m.safetensors", "--card": out / "m.md"}
    command = ("export", model, *(word for item in files.items() for word in item))
    assert bnt(*command).code == 0
    whole = {path: path.read_bytes() for path in files.values()}

    def clear():
        for path in out.iterdir():
            path.unlink()

    clear()
    points = 0
    for point in crash_points(lambda: bnt(*command).code, out):
        assert bnt(*command).code == 0, point
        assert {path: path.read_bytes() for path in out.iterdir()} == whole, point
        clear()
        points += 1
    assert points >= 9
