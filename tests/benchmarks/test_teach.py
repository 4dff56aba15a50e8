"""What `benchmarks/teach.py` keeps between two of its processes."""

import json

import numpy as np
import pytest

import teach
from helpers.pages import DOCS

SMALL = {**teach.SIZES, "width": 8}


def test_results_of_other_sizes_are_not_continued(tmp_path):
    path = tmp_path / "results.json"
    results = teach.resumed(path, SMALL)
    path.write_text(json.dumps({**results, "plain": {"0": {}}}))
    assert teach.resumed(path, SMALL)["plain"] == {"0": {}}
    with pytest.raises(SystemExit, match=r"has results of other sizes .*--width 8"):
        teach.resumed(path, teach.SIZES)


def test_results_that_do_not_say_are_of_the_default_sizes():
    path = DOCS / "teaching" / "learn.json"
    assert teach.resumed(path, teach.SIZES)["plain"] == json.loads(path.read_text())["plain"]
    with pytest.raises(SystemExit):
        teach.resumed(path, SMALL)


def test_photos_that_a_killed_process_left_half_written_are_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(teach, "PICTURES", 1)
    pictures = [np.zeros((6, 3, 32, 32), np.uint8)] * len(teach.CLASSES)
    photos = tmp_path / "photos"
    save, saved = teach.Image.Image.save, []

    def killed(picture, *where):
        saved.append(where)
        if len(saved) == 5:
            raise KeyboardInterrupt
        save(picture, *where)

    monkeypatch.setattr(teach.Image.Image, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        teach.write_folders(pictures, photos)
    monkeypatch.setattr(teach.Image.Image, "save", save)
    assert not photos.exists()
    teach.write_folders(pictures, photos)
    assert len(list((photos / "all").glob("*/*"))) == len(teach.CLASSES) + 5
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
