"""One model through a year: twelve lessons, renamings, removals, a bad lesson that is refused, a
roll-back and an export. At the end its history tells it all."""

import json

import pytest
from PIL import Image

from bntricks import Model
from bntricks.intervals import mean_share, paired_change
from bntricks.model.earlier import earlier_file, refused_file
from bntricks.model.file import opened
from helpers.colours import COLOURS, pictures

pytestmark = [pytest.mark.slow, pytest.mark.journey]

CRIMSON, GREEN, NAVY, YELLOW, WHITE, BLACK = COLOURS
RUINOUS = ("--epochs", 4, "--lr", 3)
TINY = ("--image-size", 8, "--width", 4, "--blocks", 1, "--stages", 2, "--memory", 60)


def right(model, tests):
    """For each class, which of these images the model recognises."""
    taken_for = model.predict(tests.x)
    by_class = {}
    for label, answer in zip(tests.y.tolist(), taken_for, strict=True):
        by_class.setdefault(label, []).append(answer == model.classes[label])
    return by_class


class Year:
    """A model, the commands that changed it, and what was seen of each."""

    def __init__(self, bnt, folder):
        self.bnt, self.folder = bnt, folder
        self.path = folder / "m.safetensors"
        self.done, self.parents, self.checksums = [], [], []

    def photos(self, names):
        folder = self.folder / f"folder{len(self.done)}"
        for name in names:
            (folder / name).mkdir(parents=True)
            colour = {"red": CRIMSON, "night": BLACK}.get(name, name)
            for k, x in enumerate(pictures(colour, 30, seed=len(self.done))):
                Image.fromarray(x.transpose(1, 2, 0)).save(folder / name / f"{k:02}.png")
        return folder

    def change(self, event, *words, code=0):
        before = Model.load(self.path) if self.path.exists() else None
        self.parents.append(None if before is None else before.checksum)
        done = self.bnt(*words)
        assert done.code == code, done.err + done.out
        self.done.append(event)
        after = Model.load(self.path)
        self.checksums.append(after.checksum)
        if event == "refused":
            assert after.checksum == before.checksum
        elif event == "learned" and before is not None:
            self.no_loss_without_a_word(before, after, done.out)

    def no_loss_without_a_word(self, before, after, out):
        tests = before.confirming
        was, now = right(before, tests), right(after, tests)
        counts = []
        for label in was:
            pairs = list(zip(was[label], now[label], strict=True))
            counts.append((pairs.count((False, True)), pairs.count((True, False)), len(pairs)))
        _, _, high = paired_change(counts)
        assert high >= 0 or "Old classes changed from" in out

    def learn(self, *names, event="learned", flags=(), code=0):
        epochs = () if "--epochs" in flags else ("--epochs", 60)
        words = ("learn", self.photos(names), "--into", self.path, *epochs, *flags)
        self.change(event, *words, code=code)


def test_a_model_through_a_year(bnt, tmp_path):
    year = Year(bnt, tmp_path)
    year.learn(CRIMSON, GREEN, NAVY, flags=TINY)
    year.learn(YELLOW)
    year.learn(CRIMSON, flags=["--more"])
    year.change("renamed", "rename-class", year.path, CRIMSON, "red")
    year.learn(WHITE)
    year.learn(WHITE, NAVY, flags=["--more"])
    year.learn(BLACK)
    good = year.path.read_bytes()
    year.learn("red", GREEN, event="refused", code=1, flags=["--more", *RUINOUS])
    assert year.path.read_bytes() == good
    year.learn("red", BLACK, flags=["--more"])
    year.change("removed", "remove-class", year.path, BLACK)
    year.learn(GREEN, flags=["--more", "--epochs", 3])
    year.learn(BLACK)
    year.change("renamed", "rename-class", year.path, BLACK, "night")
    year.learn(YELLOW, flags=["--more"])
    number = len(year.done)
    year.learn(WHITE, flags=["--more", "--lr", 0.01])
    before = earlier_file(year.path, number).read_bytes()
    year.change("rolled back", "rollback", year.path, number)
    year.learn(NAVY, flags=["--more"])
    assert year.done.count("learned") == 12
    assert not refused_file(year.path).exists()

    told = json.loads(bnt("history", year.path, "--json").out)
    entries = told["entries"]
    assert [each["event"] for each in entries] == year.done
    assert [each["number"] for each in entries] == list(range(1, len(year.done) + 1))
    assert [each["parent"] for each in entries] == year.parents
    assert told["checksum"] == year.checksums[-1] == opened(year.path)[2]
    assert all(len(each["data"]) == 64 for each in entries if each["event"] == "learned")
    assert len({each["data"] for each in entries if each["data"]}) == year.done.count("learned") + 1
    assert all(each["command"].startswith("bnt ") for each in entries)
    assert str(tmp_path).encode() not in year.path.read_bytes()
    assert sorted(map(int, told["kept"])) == [number, number + 1, number + 2]
    assert earlier_file(year.path, number).read_bytes() == before

    model = Model.load(year.path)
    assert sorted(model.classes) == sorted(["red", GREEN, NAVY, YELLOW, WHITE, "night"])
    measured = right(model, model.confirming)
    accuracy = {model.classes[k]: [sum(own), len(own)] for k, own in measured.items()}
    assert entries[-1]["accuracy"] == accuracy
    rate, low, high = mean_share(list(accuracy.values()))
    assert low <= rate <= high
    assert rate > 80

    small, card = tmp_path / "small.safetensors", tmp_path / "card.md"
    assert bnt("export", year.path, "--safetensors", small, "--card", card).code == 0
    text = card.read_text(encoding="utf-8")
    for number, each in enumerate(entries, start=1):
        assert f"| {number} | {each['date']} | {each['event']}" in text
    assert json.loads(bnt("history", small, "--json").out)["entries"] == entries
    assert len(bnt("history", year.path).out.splitlines()) == 2 + 2 * len(entries) + 2
