"""How photographs become squares, and how many of them are in memory at once."""

import io

import numpy as np
import pytest
from PIL import Image

from bntricks import UserError
from bntricks.streams.files.image import Square, square_pixels
from bntricks.streams.files.image_files import read_blocks, read_files
from helpers.colours import write_folder


@pytest.mark.parametrize(("crop", "interpolation"), [(1.0, "bicubic"), (0.5, "bilinear")])
def test_a_share_of_the_centre_square_is_resized_as_asked(crop, interpolation):
    pixels = np.random.default_rng(0).integers(256, size=(16, 20, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    found = square_pixels(file.getvalue(), Square(8, crop, interpolation))
    edge = 16 * (1 - crop) / 2
    box = (edge, edge, 16 - edge, 16 - edge)
    resampling = Image.Resampling[interpolation.upper()]
    wanted = Image.fromarray(pixels[:, 2:18]).resize((8, 8), resampling, box=box)
    assert np.array_equal(found.transpose(1, 2, 0), np.asarray(wanted))


def test_a_side_alone_is_the_whole_centre_square():
    assert Square.of(8) == Square(8) == Square(8, 1.0, "area")
    assert Square.of(Square(8, 0.5)) == Square(8, 0.5)


def test_blocks_are_the_images_of_all_files_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("bntricks.streams.files.image.BLOCK_BYTES", 4 * 3 * 8 * 8)
    files = sorted(write_folder(tmp_path / "photos", ["navy"], 11).rglob("*.jpg"))
    (tmp_path / "photos" / "navy" / "bad.jpg").write_bytes(b"no image")
    files.insert(5, tmp_path / "photos" / "navy" / "bad.jpg")
    blocks = list(read_blocks(files, 8, skip=True))
    assert max(len(block.x) for block in blocks) <= 4
    whole = read_files(files, 8, skip=True)
    assert [file for block in blocks for file in block.files] == list(whole.files)
    assert np.array_equal(np.concatenate([block.x for block in blocks]), whole.x)
    assert sum(len(block.unreadable) for block in blocks) == len(whole.unreadable) == 1
    with pytest.raises(UserError, match=r"bad\.jpg"):
        list(read_blocks(files, 8))
