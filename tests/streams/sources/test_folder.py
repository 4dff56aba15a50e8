import os
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from bntricks.errors import UserError
from bntricks.streams import open_stream


def make(folder, classes, count=5, size=(20, 20)):
    """Class folders; the images of the k-th class have the colour (40 k, image number, 7)."""
    for k, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", size, (40 * k, number, 7)).save(folder / name / f"{number:03}.png")
    return folder


@pytest.fixture
def zoo(tmp_path):
    return make(tmp_path / "zoo", ["ant", "bee", "cat", "dog", "eel"])


def colours(images):
    return [tuple(x[:, 0, 0].tolist()) for x in images.x]


def test_class_folders_become_tasks_in_sorted_order(zoo):
    (zoo / "notes.txt").write_text("no class")
    (zoo / ".hidden").mkdir()
    stream = open_stream("folder", data=zoo)
    assert stream.name == "folder"
    assert stream.class_names == ("ant", "bee", "cat", "dog", "eel")
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4,)]
    assert stream.shape == (3, 32, 32)
    assert stream.counts == (20, 5)
    assert (stream.pad, stream.flip, stream.memory, stream.official) == (4, True, 500, None)
    assert colours(stream[1].train) == [(40 * k, n, 7) for k in (2, 3) for n in (0, 1, 3, 4)]
    assert colours(stream[1].test) == [(80, 2, 7), (120, 2, 7)]


def test_mean_and_deviation_are_those_of_the_first_task(zoo):
    stream = open_stream("folder", data=zoo)
    first = stream[0].train.x.double() / 255
    assert stream.mean == pytest.approx(first.mean((0, 2, 3)).tolist(), abs=1e-6)
    assert stream.std[:2] == pytest.approx(
        first.std((0, 2, 3), correction=0).tolist()[:2], abs=1e-6
    )
    assert stream.std[2] == 1.0  # the blue channel is constant


def test_tasks_can_be_listed_unequal_and_in_any_order(zoo):
    tasks = [["eel"], ["cat", "ant", "bee"], ["dog"]]
    stream = open_stream("folder", data=zoo, tasks=tasks)
    assert stream.class_names == ("eel", "cat", "ant", "bee", "dog")
    assert [task.classes for task in stream] == [(0,), (1, 2, 3), (4,)]
    for task in stream:
        place = {0: 4, 1: 2, 2: 0, 3: 1, 4: 3}
        assert [x[0, 0, 0].item() for x in task.train.x] == [
            40 * place[y] for y in task.train.y.tolist()
        ]
    assert stream.fingerprint != open_stream("folder", data=zoo).fingerprint
    assert stream.fingerprint == open_stream("folder", data=zoo, tasks=tasks).fingerprint


def test_classes_per_task_and_the_share_held_out_can_be_chosen(zoo):
    stream = open_stream("folder", data=zoo, classes_per_task=3, held_out=0.4)
    assert [len(task.classes) for task in stream] == [3, 2]
    assert stream.counts == (15, 10)
    assert [n for _, n, _ in colours(stream[0].test)][:2] == [1, 3]


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("count", [2, 3, 7, 100])
def test_held_out_images_are_spread_and_neither_all_nor_none(count, share):
    from bntricks.streams.apply import held_out_positions

    chosen = sorted(held_out_positions(count, share))
    assert 1 <= len(chosen) <= count - 1
    assert len(chosen) == min(count - 1, max(1, round(count * share)))
    assert chosen[0] >= 0
    assert chosen[-1] < count
    gaps = np.diff(chosen)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


def test_images_are_found_in_nested_folders_whatever_the_case_of_their_ending(zoo):
    nested = zoo / "ant" / "deep" / "deeper"
    nested.mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(nested / "A.JPG", "JPEG")
    Image.new("RGB", (9, 9)).save(nested / "b.Tiff", "TIFF")
    (nested / "c.txt").write_text("no image")
    (nested / ".d.png").write_bytes(b"hidden")
    (nested / ".thumbnails").mkdir()
    (nested / ".thumbnails" / "a.png").write_bytes(b"in a hidden folder")
    assert open_stream("folder", data=zoo).counts == (20 + 2, 5)


def test_adding_or_renaming_an_image_is_noticed(zoo, heard):
    before = open_stream("folder", data=zoo)
    open_stream("folder", data=zoo, report=heard)
    assert heard.work == {"reading"}
    Image.new("RGB", (20, 20), (1, 2, 3)).save(zoo / "bee" / "zzz.png")
    after = open_stream("folder", data=zoo, report=heard)
    assert "decoding" in heard.work
    assert sum(after.counts) == sum(before.counts) + 1
    assert after.fingerprint != before.fingerprint
    (zoo / "bee" / "zzz.png").rename(zoo / "bee" / "000a.png")
    assert open_stream("folder", data=zoo).fingerprint != after.fingerprint


def test_an_image_that_moves_to_another_class_is_noticed(zoo):
    open_stream("folder", data=zoo)
    (zoo / "ant" / "004.png").rename(zoo / "bee" / "!.png")  # all files keep their sorted order
    first = open_stream("folder", data=zoo)[0]
    assert torch.bincount(torch.cat([first.train.y, first.test.y])).tolist() == [4, 6]


def test_each_size_and_share_has_its_own_entry(zoo):
    for size, share, tests in ((32, 0.2, 5), (16, 0.2, 5), (16, 0.4, 10), (32, 0.2, 5)):
        stream = open_stream("folder", data=zoo, image_size=size, held_out=share)
        assert stream.shape == (3, size, size)
        assert stream.counts == (25 - tests, tests)


def test_the_same_images_elsewhere_have_the_same_fingerprint(zoo, tmp_path):
    before = open_stream("folder", data=zoo).fingerprint
    assert open_stream("folder", data=zoo.rename(tmp_path / "moved")).fingerprint == before


def test_the_first_images_of_each_class_can_be_taken(zoo):
    stream = open_stream("folder", data=zoo, images_per_class=2, image_size=16)
    assert stream.counts == (10, 5)
    assert stream.pad == 2
    assert colours(stream[0].train) == [(0, 0, 7), (0, 1, 7), (40, 0, 7), (40, 1, 7)]


def one(tmp_path, name, save, size=8):
    """What an odd image, alone in its class, is decoded to."""
    folder = tmp_path / "odd" / "class"
    folder.mkdir(parents=True)
    for number in "ab":
        save(folder / f"{number}-{name}")
    stream = open_stream("folder", data=folder.parent, image_size=size)
    assert torch.equal(stream[0].train.x, stream[0].test.x)
    return stream[0].train.x[0]


def assert_colour(x, *colour, within=0):
    assert (x.int() - torch.tensor(colour)[:, None, None]).abs().max() <= within, x[:, 0, 0]


def test_a_palette_becomes_its_colours(tmp_path):
    image = Image.new("P", (8, 8), 3)
    image.putpalette([*bytes(9), 10, 20, 30])
    assert_colour(one(tmp_path, "p.gif", image.save), 10, 20, 30)


def test_a_transparent_palette_entry_becomes_black(tmp_path):
    image = Image.new("P", (8, 8), 3)
    image.putpalette([*bytes(9), 10, 20, 30])
    x = one(tmp_path, "p.png", lambda path: image.save(path, transparency=3))
    assert_colour(x, 0, 0, 0)


def test_alpha_is_laid_over_black(tmp_path):
    image = Image.new("RGBA", (8, 8), (200, 100, 50, 128))
    assert_colour(one(tmp_path, "a.png", image.save), 100, 50, 25, within=1)


def test_grey_with_alpha_is_laid_over_black(tmp_path):
    image = Image.new("LA", (8, 8), (200, 0))
    assert_colour(one(tmp_path, "a.png", image.save), 0, 0, 0)


@pytest.mark.parametrize("ending", ["png", "tif", "ppm"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path, ending):
    values = np.full((8, 8), 200 * 257, dtype=np.uint16)

    def save(path):
        if ending == "ppm":
            path.write_bytes(b"P5 8 8 65535\n" + values.astype(">u2").tobytes())
        else:
            Image.fromarray(values).save(path)

    assert_colour(one(tmp_path, f"deep.{ending}", save), 200, 200, 200)


def test_grey_black_and_white_and_cmyk_become_rgb(tmp_path):
    assert_colour(one(tmp_path / "l", "l.bmp", Image.new("L", (8, 8), 77).save), 77, 77, 77)
    assert_colour(one(tmp_path / "1", "1.png", Image.new("1", (8, 8), 1).save), 255, 255, 255)
    cmyk = Image.new("CMYK", (8, 8), (255, 0, 0, 0))
    assert_colour(one(tmp_path / "c", "c.jpg", cmyk.save), 0, 255, 255, within=3)


def test_the_camera_s_rotation_is_applied(tmp_path):
    image = Image.new("RGB", (8, 8), (0, 0, 0))
    image.paste((255, 0, 0), (0, 0, 8, 4))  # red on top as stored
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    x = one(tmp_path, "turned.png", lambda path: image.save(path, exif=exif))
    assert (x[0, :, 4:] == 255).all()
    assert (x[0, :, :4] == 0).all()


def test_the_centre_square_is_taken_and_shrunk_by_area(tmp_path):
    pixels = np.zeros((16, 30, 3), np.uint8)
    pixels[:, :7] = pixels[:, 23:] = 255  # outside the centre
    pixels[::2, 7:23:2] = 200
    x = one(tmp_path, "wide.png", Image.fromarray(pixels).save)
    assert_colour(x, 50, 50, 50)


def test_a_small_image_is_enlarged(tmp_path):
    x = one(tmp_path, "small.png", Image.new("RGB", (3, 2), (9, 8, 7)).save, size=24)
    assert x.shape == (3, 24, 24)
    assert_colour(x, 9, 8, 7)


def fails(data, *parts, **options):
    with pytest.raises(UserError) as caught:
        open_stream("folder", data=data, **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def png_of(width, height):
    """A small file that claims to be a large image."""

    def chunk(kind, body):
        whole = kind + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"0"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not an image", "none of JPEG, PNG"),
        (b"", "none of JPEG, PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "none of JPEG, PNG"),
        (png_of(20, 20), "bee/bad"),
        (png_of(10_000, 10_000), "decompression bomb"),
        (png_of(60_000, 60_000), "decompression bomb"),
    ],
)
def test_an_image_that_cannot_be_read_is_named(zoo, cache, content, reason):
    (zoo / "bee" / "bad [red].png").write_bytes(content)
    fails(zoo, str(zoo / "bee" / "bad [red].png"), reason)
    assert list((cache / "images").iterdir()) == []


def test_float_pixels_are_refused(zoo):
    Image.fromarray(np.zeros((8, 8), np.float32)).save(zoo / "bee" / "float.tif")
    fails(zoo, "float.tif", "floats")


def test_a_truncated_image_is_named(zoo):
    file = zoo / "bee" / "noise.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[:6000])
    fails(zoo, str(file))


def test_a_name_that_does_not_print_is_escaped(zoo):
    (zoo / "bee" / "a\nb\x1b[31m.png").write_bytes(b"bad")
    fails(zoo, "a\\nb\\x1b[31m.png")


def test_a_class_folder_that_does_not_print_must_be_renamed(zoo):
    (zoo / "a\nb").mkdir()
    fails(zoo, "a\\nb", "rename it")


def test_a_class_with_no_image_or_a_single_one_is_named(zoo):
    (zoo / "fox").mkdir()
    fails(zoo, "'fox'", "no images")
    Image.new("RGB", (9, 9)).save(zoo / "fox" / "a.png")
    fails(zoo, "'fox'", "one image")


def test_a_pipe_and_a_broken_link_are_named_and_not_waited_for(zoo):
    os.mkfifo(zoo / "ant" / "pipe.png")
    fails(zoo, "ant/pipe.png", "not a regular file")
    (zoo / "ant" / "pipe.png").unlink()
    (zoo / "ant" / "link.png").symlink_to(zoo / "nowhere.png")
    fails(zoo, "ant/link.png", "no such file")


def test_a_huge_file_is_refused_before_anything_is_read(zoo, heard):
    with (zoo / "bee" / "huge.png").open("wb") as file:
        file.truncate(300 << 30)  # a hole: it takes no room on disk
    fails(zoo, "bee/huge.png", "322,122,547,200 bytes", "256,000,000", report=heard)
    assert heard == []


def test_a_home_that_is_not_there_is_a_missing_folder():
    fails("~nobody-of-this-name/zoo", "~nobody-of-this-name/zoo does not exist")


def test_a_folder_without_classes_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    fails(tmp_path / "empty", "no class folders")


def test_the_folder_must_be_given_and_there(tmp_path):
    fails(None, "data: ", "one folder of images for each class")
    fails(tmp_path / "nowhere", "nowhere", "does not exist")
    (tmp_path / "file").write_text("")
    fails(tmp_path / "file", "is not a folder")


@pytest.mark.parametrize(
    ("tasks", "parts"),
    [
        ([["ant", "bee"], ["cat", "dog", "eel", "fox"]], ["'fox'", "'ant', 'bee'"]),
        ([["ant", "bee"], ["cat", "dog", "eel", "bee"]], ["'bee'", "more than once"]),
        ([["ant", "bee"], ["cat"]], ["not in any task: 'dog', 'eel';"]),
        ([["ant", "bee", "cat", "dog", "eel"], []], ["one of them is empty"]),
        (["ant", "bee"], ["list of lists"]),
        ([], ["not in any task: 'ant'"]),
    ],
)
def test_every_class_must_be_in_one_task(zoo, tasks, parts):
    fails(zoo, *parts, tasks=tasks)


@pytest.mark.parametrize("share", [0, 1, -0.1, 2, float("nan")])
def test_the_held_out_share_must_leave_something_on_both_sides(zoo, share):
    fails(zoo, f"held_out {share}: ", "between 0 and 1", held_out=share)


def test_the_split_is_checked(zoo):
    fails(zoo, "classes_per_task 0: ", classes_per_task=0)
    fails(zoo, "leave one of them out", classes_per_task=1, tasks=[["ant"]])


def test_ten_bad_names_do_not_flood_the_message(zoo):
    fails(zoo, "and 20 more", tasks=[[f"x{k}" for k in range(30)]])
