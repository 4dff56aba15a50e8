"""Images that a CSV file lists."""

import json

import pytest
from PIL import Image

from bntricks.errors import UserError
from bntricks.streams import open_stream
from helpers.command_line import SMALL, bnt, refused


@pytest.fixture
def table(tmp_path):
    """Write a table of twelve images of four classes in one folder."""

    def write(head="path,label", row="images/{n}.png,{label}", name="mine.csv"):
        (tmp_path / "images").mkdir(exist_ok=True)
        lines = [head]
        for n in range(12):
            Image.new("RGB", (20, 20), (10 * n, 0, 0)).save(tmp_path / "images" / f"{n}.png")
            label, split = f"class {n % 4}", ("test" if n >= 8 else "train")
            lines.append(row.format(n=n, label=label, split=split, folder=tmp_path))
        (tmp_path / name).write_text("\ufeff" + "\r\n".join(lines) + "\r\n\r\n", encoding="utf-8")
        return tmp_path / name

    return write


def reds(images):
    return images.x[:, 0, 0, 0].tolist()


def test_paths_and_labels_become_a_stream_with_a_share_held_out(table):
    stream = open_stream("csv", data=table(), image_size=8)
    assert (stream.name, stream.shape, stream.counts) == ("csv", (3, 8, 8), (8, 4))
    assert stream.class_names == tuple(f"class {k}" for k in range(4))
    assert (reds(stream[0].train), reds(stream[0].test)) == ([0, 80, 10, 90], [40, 50])


def test_a_split_column_decides_what_is_for_testing_and_columns_may_have_other_names(table):
    split = table("Split, class ,file,id", '{split},"{label}",{folder}/images/{n}.png,{n}')
    stream = open_stream("csv", data=split, classes_per_task=4)
    assert stream.counts == (8, 4)
    assert reds(stream[0].test) == [80, 90, 100, 110]
    with pytest.raises(UserError, match="held_out: the table says which images are for testing"):
        open_stream("csv", data=split, held_out=0.5)


def test_other_labels_of_the_same_images_are_another_stream(table):
    first = open_stream("csv", data=table()).fingerprint
    again = open_stream("csv", data=table(row="images/{n}.png,other {label}", name="b.csv"))
    assert again.class_names[0] == "other class 0"
    assert again.fingerprint != first


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        ("images/0.png,cat", "images/{n}.png,{label}", "does not name the columns: write path,lab"),
        ("path,label", "images/{n}.png", "line 2 of "),
        ("path,label,split", "images/{n}.png,{label},dev", "with train or test as its split"),
        ("path,label", "images/{n}.png,{n}", "class '0' in "),
        ("path,label", "nowhere/{n}.png,{label}", "nowhere/0.png"),
        ('path,"label', "{n},{label}", "is not CSV in UTF-8: "),
    ],
)
def test_what_is_wrong_with_a_table_is_one_line(table, head, row, message):
    with pytest.raises(UserError) as refusal:
        open_stream("csv", data=table(head, row))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.journey
def test_the_command_line_learns_from_a_table(table):
    path = table()
    command = ["run", "--stream", "csv", *SMALL, "--image-size", "8", "--memory", "4"]
    done = bnt(*command, "--data", path.name, "--json", cwd=path.parent)
    assert json.loads(done.stdout)["data"]["images"] == {"train": 8, "test": 4}
    refused(bnt(*command, cwd=path.parent), "--data: the stream 'csv' needs images")
    refused(bnt(*command, "--data", "no.csv", cwd=path.parent), "cannot read no.csv")
