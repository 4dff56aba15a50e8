"""How a network that was trained elsewhere is given images, read from the JSON beside it: Hugging
Face's `preprocessor_config.json`, timm's `config.json`, or plain `image_size`, `mean` and `std`."""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any

from bntricks.errors import UserError
from bntricks.files import parse_json, read_errors, shown, text_bytes
from bntricks.networks.backbones import ImageInput
from bntricks.options import Interpolation

BYTE = 1 / 255
PILLOW: dict[Any, Interpolation] = {2: "bilinear", 3: "bicubic", 4: "area"}
"""Kinds of interpolation by the number that Hugging Face writes."""
SMALLEST, LARGEST = 8, 1024
"""The side of images, in pixels."""


def read_preprocessing(path: Path) -> ImageInput:
    """Read a preprocessing file. Adopted networks still see the whole centre square, resized by
    area means; backbones see images with this crop and interpolation."""
    with read_errors(path):
        content = text_bytes(path)
    try:
        values = parse_json(content)
        return _understood(values.get("pretrained_cfg", values))
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        RuntimeError,
        OverflowError,
    ) as error:
        missing = isinstance(error, KeyError)
        reason = f"it has no {error}" if missing else shown(str(error))
        raise UserError(
            f"cannot prepare images by {shown(path)} ({reason}): give a preprocessor_config.json "
            "of Hugging Face, a config.json of timm, or JSON with image_size, mean and std"
        ) from None


def read_class_names(path: Path) -> list[str]:
    """Read class names in the order of a network's outputs: a JSON list, `id2label` of a Hugging
    Face `config.json`, or one name on each line."""
    with read_errors(path):
        content = text_bytes(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{shown(path)} is not text in UTF-8: give one name on each line") from None
    if not text.lstrip().startswith(("[", "{")):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        names = parse_json(text)
        if isinstance(names, Mapping):
            by_output = {int(output): name for output, name in names["id2label"].items()}
            names = [by_output[output] for output in range(len(by_output))]
    except (ValueError, KeyError, AttributeError, TypeError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(
            f"{shown(path)} is JSON, but neither a list of names nor an object with id2label from "
            "0 on"
        )
    return names


def _understood(values: Mapping[str, Any]) -> ImageInput:
    mean, std = [0.0] * 3, [1.0] * 3
    if values.get("do_normalize") is not False:
        mean, std = (_numbers(values, name) for name in ("mean", "std"))
    if len(mean) != len(std):
        raise ValueError(f"it has {len(mean)} means and {len(std)} standard deviations")
    if not all(map(isfinite, mean)):
        raise ValueError(f"its mean is {mean}")
    if not all(0 < deviation < inf for deviation in std):
        raise ValueError(f"its standard deviation is {std}")
    scale = values.get("rescale_factor", BYTE) if values.get("do_rescale", True) else 1.0
    if abs(scale - BYTE) > 1e-6:
        raise ValueError(f"pixels are scaled by {scale}, not by 1/255")
    size = values.get("image_size", values.get("input_size"))
    if size is None:
        cropped = values.get("do_center_crop", "crop_size" in values)
        size = values.get("crop_size" if cropped else "size", values.get("size"))
    side, crop = _side(size), values.get("crop_pct")
    if crop is None:
        before = values.get("size") if values.get("do_center_crop") else None
        before = before.get("shortest_edge") if isinstance(before, Mapping) else before
        crop = side / before if side and before and side < before else 1.0
    kind = values.get("interpolation") or PILLOW.get(values.get("resample"), "area")
    return ImageInput(side, tuple(mean), tuple(std), float(crop), kind)


def _numbers(values: Mapping[str, Any], name: str) -> list[float]:
    given = values.get(f"image_{name}")
    return list(map(float, values[name] if given is None else given))


def _side(size: Any) -> int | None:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge") or [size["height"], size["width"]]
    if isinstance(size, list):
        *_, height, width = size
        if height != width:
            raise ValueError(f"images of {height} by {width} are not square")
        size = height
    if size is None:
        return None
    if not SMALLEST <= float(size) <= LARGEST:
        raise ValueError(f"images of {size} pixels: their side is from {SMALLEST} to {LARGEST}")
    return int(size)
