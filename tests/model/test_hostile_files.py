"""Files that are no models, or were tampered with: a line each, and nothing is believed."""

import json
import pickle
import struct
import zipfile

import pytest
import safetensors.torch as safe
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors import safe_open

from bntricks import Model, UserError
from bntricks.model.file import checksum
from helpers.colours import pictures


def rewritten(model, change, *, sign=True):
    """The file with its description or its tensors changed, and a checksum that matches."""
    tensors = safe.load_file(model)
    with safe_open(model, "pt") as file:
        about = json.loads(file.metadata()["bntricks"])
    signature = about.pop("checksum")
    said = change(about, tensors)
    about["checksum"] = checksum(about, tensors) if sign else signature
    text = said if isinstance(said, str) else json.dumps(about)
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    model.write_bytes(safe.save(whole, {"bntricks": text}))


CHANGES = {
    "another class count": (
        lambda about, tensors: about["taught"][0]["classes"].append("more"),
        "linear.weight is [3, 8]",
    ),
    "a name twice": (
        lambda about, tensors: about["taught"][0].update(classes=["a", "b", "a"]),
        "twice",
    ),
    "no classes": (lambda about, tensors: about.update(taught=[]), "missing"),
    "another width": (lambda about, tensors: about["network"].update(width=8), "where its network"),
    "a huge width": (lambda about, tensors: about["network"].update(width=10**9), "width"),
    "a huge memory": (lambda about, tensors: about.update(memory=10**12), "memory"),
    "another method": (lambda about, tensors: about.update(method="rm -rf"), "unknown method"),
    "strange fields": (lambda about, tensors: about.update(exec="import os"), "exec"),
    "a format that moves the cursor": (
        lambda about, tensors: about.update(format="\x1b[2J"),
        "format is \\x1b[2J,",
    ),
    "another format": (lambda about, tensors: about.update(format=4), "format is 4"),
    "no JSON": (lambda about, tensors: "{", "description"),
    "JSON, but a list": (lambda about, tensors: "[]", "description"),
    "deep JSON": (lambda about, tensors: "[" * 10**5, "description"),
    "zero deviation": (lambda about, tensors: about["view"].update(std=[0, 0, 0]), "std"),
    "no shape": (lambda about, tensors: about.update(shape=[]), "shape"),
    "a shape that is no image's": (lambda about, tensors: about.update(shape=[3, 8]), "the view"),
    "a mean for another number of channels": (
        lambda about, tensors: about["view"].update(mean=[0.5, 0.5]),
        "do not fit the view",
    ),
    "channels that the network has not": (
        lambda about, tensors: about.update(shape=[1, 8, 8]),
        "do not fit the network",
    ),
    "missing weights": (lambda about, tensors: tensors.pop("net.bn.weight"), "lacks"),
    "strange weights": (
        lambda about, tensors: tensors.update({"net.x\n": torch.zeros(1)}),
        "'x\\\\n'",
    ),
    "half weights": (
        lambda about, tensors: tensors.update({"net.bn.weight": torch.zeros(4).half()}),
        "float16",
    ),
    "weights that are no numbers": (
        lambda about, tensors: tensors["net.bn.running_var"].fill_(torch.nan),
        "not finite",
    ),
    "negative variances": (
        lambda about, tensors: tensors["net.bn.running_var"].neg_(),
        "bn.running_var holds variances below 0",
    ),
    "an absurd learning rate": (lambda about, tensors: about.update(lr=1e308), "(lr 1e+308: it"),
    "no generators": (lambda about, tensors: tensors.pop("generators.order"), "order"),
    "a broken generator": (
        lambda about, tensors: tensors.update({"generators.order": torch.zeros(3).byte()}),
        "its memory",
    ),
    "labels out of range": (lambda about, tensors: tensors["memory.y"].fill_(9), "labels"),
    "images of another size": (
        lambda about, tensors: tensors.update({"tests.x": tensors["tests.x"][..., :5]}),
        "samples of",
    ),
    "more than the memory holds": (lambda about, tensors: about.update(memory=3), "do not fit"),
    "a strange part of the memory": (
        lambda about, tensors: tensors.update({"memory.__class__": torch.zeros(24)}),
        "not part of a memory",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_was_tampered_with_is_refused_in_a_line(refused, model, first, what):
    change, words = CHANGES[what]
    rewritten(model, change)
    refused("predict", model, first, words=[model.name, words])


def test_the_file_as_it_was_is_not_refused(bnt, model, first):
    rewritten(model, lambda about, tensors: None)
    assert bnt("predict", model, first).code == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda about, tensors: tensors["net.conv.weight"].view(-1)[0].neg_(),
        lambda about, tensors: tensors["memory.x"].view(-1)[0].bitwise_xor_(1),
        lambda about, tensors: tensors["tests.y"].sub_(tensors["tests.y"]),
        lambda about, tensors: about["view"].update(pad=3),
        lambda about, tensors: about["taught"][0]["classes"].reverse(),
        lambda about, tensors: about.update(seed=about["seed"] + 1),
    ],
)
def test_a_change_that_would_be_believed_is_noticed_by_the_checksum(refused, model, first, change):
    rewritten(model, change, sign=False)
    refused("predict", model, first, words=[model.name, "checksum does not match"])


@pytest.mark.fault
@settings(max_examples=100, deadline=None, suppress_health_check=[*HealthCheck])
@given(draw=st.data())
def test_no_flipped_bit_is_believed(taught, tmp_path, draw):
    content = bytearray(taught.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    end = draw.draw(st.sampled_from([header, len(content)]))
    at = draw.draw(st.integers(0, end - 1))
    content[at] ^= 1 << draw.draw(st.integers(0, 7))
    (tmp_path / "flipped").write_bytes(content)
    with pytest.raises(UserError) as caught:
        Model.load(tmp_path / "flipped")
    assert "\n" not in str(caught.value)
    assert "cannot use the model" in str(caught.value)


def test_files_without_a_checksum_are_read_as_they_always_were(model, tmp_path):
    before = Model.load(model)

    def of_format_1(about, tensors):
        return json.dumps(about | {"format": 1})

    rewritten(model, of_format_1)
    old = Model.load(model)
    x = torch.from_numpy(pictures("navy", 20))
    assert torch.equal(old.scores(x), before.scores(x))
    old.save(tmp_path / "again")
    with safe_open(tmp_path / "again", "pt") as file:
        assert "checksum" in json.loads(file.metadata()["bntricks"])


def test_scores_that_are_not_finite_are_not_answers(refused, model, first):
    rewritten(model, lambda about, tensors: about["view"].update(std=[1e-44] * 3))
    refused("predict", model, first, "--json", words=["scores are not finite"], code=1)


NAMES = ("text", "empty", "null", "zip", "pickle", "torch", "foreign")


def strangers(folder):
    """Files that are no models."""
    found = {name: folder / name for name in NAMES}
    found["text"].write_text("hello")
    found["empty"].write_bytes(b"")
    found["null"].write_bytes(struct.pack("<Q", 21) + b'{"__metadata__":null}')
    with zipfile.ZipFile(found["zip"], "w") as archive:
        archive.writestr("model.safetensors", "x")
    found["pickle"].write_bytes(pickle.dumps(Boom()))
    torch.save({"a": torch.zeros(3)}, found["torch"])
    safe.save_file({"weight": torch.zeros(3)}, found["foreign"])
    (folder / "header").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    return [*found.values(), folder / "header"]


class Boom:
    """Unpickling it would show."""

    def __reduce__(self):
        return (print, ("unpickled",))


def test_what_is_no_model_is_refused_in_a_line(refused, tmp_path, first, second):
    for path in strangers(tmp_path):
        before = path.read_bytes()
        refused("predict", path, first, words=[path.name, "cannot use the model"])
        said = refused("learn", second, "--into", path, words=[path.name, "cannot use the model"])
        assert "bnt learn" not in said
        assert path.read_bytes() == before
    refused("predict", tmp_path / "none", first, words=["none", "No such file"])
    refused("predict", tmp_path, first, words=["cannot read"])


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("[" * 100 + "]" * 100, "nested too deeply"),
        ("1" * 45, "more than 40 digits"),
        (f'"{"x" * (1 << 26)}"', "larger than 67,108,864 bytes"),
    ],
    ids=["deep", "long", "large"],
)
def test_a_header_is_bounded_even_where_safetensors_ignores_what_is_in_it(model, field, reason):
    content = model.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end].replace(b'"dtype"', f'"more":{field},"dtype"'.encode(), 1)
    model.write_bytes(struct.pack("<Q", len(header)) + header + content[end:])
    with pytest.raises(UserError, match=reason):
        Model.load(model)


def test_every_truncation_is_refused(model):
    content = model.read_bytes()
    for end in (*range(64), *range(64, len(content), len(content) // 40)):
        model.write_bytes(content[:end])
        with pytest.raises(UserError, match="not a whole safetensors file"):
            Model.load(model)
