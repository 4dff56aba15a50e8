"""What Hugging Face, timm and people write about a network's inputs is understood, or refused."""

import json

import pytest

from bntricks import UserError
from bntricks.model.preprocessing import ImageInput, read_class_names, read_preprocessing

HALF = {"image_mean": [0.5], "image_std": [0.25]}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (HALF | {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, 224),
        (HALF | {"size": {"shortest_edge": 256}, "crop_size": 9, "do_center_crop": False}, 256),
        (HALF | {"size": 384, "rescale_factor": 1 / 255}, 384),
        ({"pretrained_cfg": {"input_size": [3, 96, 96], "mean": [0.5], "std": [0.25]}}, 96),
        ({"image_size": 64, "mean": [0.5], "std": [0.25]}, 64),
        ({"mean": [0.5], "std": [0.25]}, None),
    ],
)
def test_size_and_normalisation_are_found(tmp_path, values, expected):
    (tmp_path / "p.json").write_text(json.dumps(values))
    found = read_preprocessing(tmp_path / "p.json")
    assert (found.size, found.mean, found.std) == (expected, (0.5,), (0.25,))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True},
            (0.875, "area"),
        ),
        ({"size": 224, "resample": 3}, (1.0, "bicubic")),
        (
            {"input_size": [3, 96, 96], "crop_pct": 0.9, "interpolation": "bilinear"},
            (0.9, "bilinear"),
        ),
        ({}, (1.0, "area")),
    ],
)
def test_crop_and_interpolation_are_found(tmp_path, values, expected):
    (tmp_path / "p.json").write_text(json.dumps(HALF | {"mean": [0.5], "std": [0.25]} | values))
    found = read_preprocessing(tmp_path / "p.json")
    assert (found.crop, found.interpolation) == expected


def test_pixels_that_are_not_normalised_stay_as_they_are(tmp_path):
    for values in (HALF, {}):
        (tmp_path / "p.json").write_text(json.dumps(values | {"do_normalize": False}))
        colour = ImageInput(None, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
        assert read_preprocessing(tmp_path / "p.json") == colour


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        json.dumps(HALF | {"rescale_factor": 1 / 127.5}),
        json.dumps(HALF | {"do_rescale": False}),
        json.dumps(HALF | {"size": {"height": 224, "width": 192}}),
        json.dumps({"mean": "a", "std": [1]}),
        json.dumps({"mean": [0.5], "std": None}),
        json.dumps({"mean": [0.5, 0.5], "std": [0.5]}),
        json.dumps({"mean": [0.5, 0.5, 0.5], "std": [0.5, 0, 0.5]}),
        '{"mean": [NaN], "std": [1]}',
        *(json.dumps(HALF | {"image_size": size}) for size in (-5, 0, 7, 1025, 10**400)),
        '{"mean": [0.5], "std": [1], "image_size": 1e999}',
    ],
)
@pytest.mark.fault
def test_what_cannot_be_followed_is_one_line(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(UserError, match=r"cannot prepare images by .*p\.json \(.+\): ") as raised:
        read_preprocessing(tmp_path / "p.json")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["cat\n sea lion \n\n", '["cat", "sea lion"]', '{"id2label": {"1": "sea lion", "0": "cat"}}'],
)
def test_names_are_lines_or_json(tmp_path, text):
    (tmp_path / "names").write_text(text)
    assert read_class_names(tmp_path / "names") == ["cat", "sea lion"]


@pytest.mark.parametrize("text", ["[1]", "{}", '{"id2label": {"1": "cat"}}', "[", b"\xff\xfe"])
@pytest.mark.fault
def test_other_files_hold_no_names(tmp_path, text):
    (tmp_path / "names").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match="names is "):
        read_class_names(tmp_path / "names")
