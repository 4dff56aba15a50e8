"""Whatever kind of file of ours is damaged, it is refused, made again, or says the same as before:
it never says something else, and no damage ends in a traceback. With BNT_EVERY_POINT, as in
`make test-deep`, a thousand damages of each kind."""

import hashlib
import os
import random
import re
import shutil

import numpy as np
import pytest
import torch

from bntricks import Config, Model, UserError
from bntricks.files import commit, pack_json
from bntricks.report import files as report_files
from bntricks.runs import folder as run_folder, network, probes
from bntricks.runs.folder import REQUEST, resume, run
from bntricks.runs.record import file as record_file, maps, phi
from bntricks.runs.record.maps import BiasedPhi, Map, Panel
from bntricks.runs.record.phi import AtShare, PhiAccuracies
from bntricks.streams import open_stream
from bntricks.streams.files import dataset
from bntricks.streams.files.dataset import META, Plan, PlannedSplit
from bntricks.sweeps import queue
from bntricks.training.checkpoint import BEFORE, NEWEST, Checkpoints, pack

DAMAGES = 1000 if "BNT_EVERY_POINT" in os.environ else 40
SMALL = {"stream": "seq-digits", "epochs": 1, "width": 2, "blocks": 1, "stages": 2, "batch": 64}


def damaged(content, chance):
    """The content with one or a few damages of the kinds that disks, editors and people make."""
    damage = chance.choice(DAMAGE)
    for _ in range(chance.choice((1, 1, 1, 3))):
        content = damage(bytes(content), chance)
    return bytes(content)


def _flip(content, chance):
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return changed


def _overwrite(content, chance):
    at, size = chance.randrange(len(content)), chance.choice((1, 16, 512))
    return content[:at] + chance.randbytes(size) + content[at + size :]


def _zero(content, chance):
    at = chance.randrange(len(content))
    return content[:at] + bytes(len(content[at : at + 4096])) + content[at + 4096 :]


def _cut(content, chance):
    return content[: chance.randrange(len(content))] or b"-"


def _append(content, chance):
    return content + chance.choice((b"\n", b" ", b"}", b"\0", chance.randbytes(9), content))


def _swap(content, chance):
    one, two, three = sorted(chance.randrange(len(content)) for _ in range(3))
    return content[:one] + content[two:three] + content[one:two] + content[three:]


def _another_number(content, chance):
    """One digit changed, where there is text; in the first part of what is long."""
    digits = [found.start() for found in re.finditer(rb"\d", content[:50_000])]
    if not digits:
        return _flip(content, chance)
    at = chance.choice(digits)
    return content[:at] + str(chance.randrange(10)).encode() + content[at + 1 :]


def _another_word(content, chance):
    """One letter of a word changed: a key of JSON, or a name."""
    letters = [found.start() for found in re.finditer(rb"[a-z](?=[a-z])", content[:50_000])]
    if not letters:
        return _flip(content, chance)
    at = chance.choice(letters)
    return content[:at] + bytes([chance.randrange(97, 123)]) + content[at + 1 :]


DAMAGE = (_flip, _overwrite, _zero, _cut, _append, _swap, _another_number, _another_word)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A finished run with its network."""
    out = tmp_path_factory.mktemp("damages")
    return run(Config(method="er", **SMALL), out=out / "runs", keep_network=True)


def a_record(record, place, monkeypatch):
    shutil.copy(record.path / record_file.NAME, place)
    path, warnings = place / record_file.NAME, []

    def read():
        warnings.clear()
        found = record_file.load(place, warnings.append)
        assert (found is None) == bool(warnings)
        if found is None:
            with pytest.raises(UserError, match="not a valid run record"):
                record_file.read(path)
            return None
        assert record_file.read(path) == found
        return found

    return path, read


def an_earlier_record(record, place, monkeypatch):
    """What counts of a run that was trained again."""
    shutil.copy(record.path / record_file.NAME, place)
    other = record.model_copy(update={"digest": dict.fromkeys(record.digest, "0" * 64)})
    record_file.save(other, place)
    path = place / record_file.EARLIER.format(1)
    return path, lambda: record_file.first_training(record_file.read(place / record_file.NAME))


def a_request(record, place, monkeypatch):
    folder = place / record.path.name
    folder.mkdir()
    shutil.copy(record.path / REQUEST, folder)
    monkeypatch.setattr(run_folder, "_run", lambda stream, config, request, *how: (config, request))
    return folder / REQUEST, lambda: resume(folder)


def a_checkpoint(name):
    def kind(record, place, monkeypatch):
        state = {"x": torch.arange(300.0), "rows": [[1.5, None], [2.5, 3.5]], "step": 7}
        checkpoints = Checkpoints(place, {"lr": "0.1"})
        checkpoints.save(state | {"step": 6})
        checkpoints.save(state)
        if name == BEFORE:
            (place / NEWEST).unlink()
        whole = {6: pack(state | {"step": 6}), 7: pack(state)}

        def read():
            said = []
            found = Checkpoints(place, {"lr": "0.1"}, writes=False, warn=said.append).load()
            if said:  # the one before it, which is as whole, or none
                assert found is None or pack(found) == whole[found["step"]]
                return None
            return pack(found)

        return place / name, read

    return kind


def a_model(record, place, monkeypatch, memory=True):
    from bntricks.model.create import create
    from bntricks.model.learn import teach
    from bntricks.model.samples import gather
    from helpers.colours import FIRST, pictures

    samples = gather({name: pictures(name) for name in FIRST}, size=8, held_out=0.2)
    model = create(samples, width=2, blocks=1, stages=1, memory=6)
    teach(model, samples, epochs=1, lr=None, sink=lambda event: None)
    path = place / "model.safetensors"
    model.save(path, memory=memory)

    def read():
        found = Model.load(path)
        return found.metadata, pack(found.learner.state_dict()), _bits(found.held_out)

    return path, read


def an_exported_model(record, place, monkeypatch):
    return a_model(record, place, monkeypatch, memory=False)


def _bits(images):
    return None if images is None else (pack({"x": images.x, "y": images.y}))


def a_network(record, place, monkeypatch):
    shutil.copy(record.path / network.NAME, place)
    stream = open_stream(record.stream)
    found = record.model_copy(update={"path": place})
    return place / network.NAME, lambda: pack(network.load(found, stream).state_dict())


def phi_accuracies(record, place, monkeypatch):
    shares = tuple(
        AtShare(share=s, old=40.0, newest=60.0, acc=50.0, tasks=(40.0, 60.0), nearest_mean=33.0)
        for s in probes.SHARES
    )
    path = maps.path_in(place, "phi")
    phi.save(PhiAccuracies.of(50.0, 60.0, task_acc=70.0, memory_acc=55.0, by_share=shares), path)
    return path, lambda: phi.load(path)


def a_map(record, place, monkeypatch):
    panels = tuple(
        Panel(name=name, x=(0.5, 1.5), y=(2.5, 3.25), predicted=(0, 1))
        for name in ("balanced", "biased")
    )
    picture = probes.picture(torch.zeros(1, 8, 8, dtype=torch.uint8))
    biased = BiasedPhi.of([50.0, 60.0], [40.0, 70.0], 50.0, 75.0)
    features = Map(
        task=2,
        class_names=("cat", "dog"),
        labels=(0, 1),
        images=(picture, picture),
        panels=panels,
        biased_phi=biased,
    )
    path = maps.path_in(place, "statistics")
    maps.save(features, path)
    return path, lambda: maps.load(path)


def a_part_of_the_cache(name):
    def kind(record, place, monkeypatch):
        pixels = np.arange(6 * 3 * 8 * 8, dtype=np.uint8).reshape(6, 3, 8, 8)
        parts = [PlannedSplit((3, 3), [pixels]) for _ in range(2)]
        plan = Plan("a test", (3, 8, 8), ("cat", "dog"), *parts)
        entry = dataset._write(place / "entry", plan, "decoding", lambda *_: None)

        def read():
            dataset._verified.cache_clear()  # as in another process
            found = dataset._load(entry)
            if found is None:
                return None
            x = [pack({"x": part.x}) for part in (found.train, found.test)]
            return x, found.class_names, found.fingerprint, found.train.counts, found.test.counts

        return entry / name, read

    return kind


def the_files_of_a_report(record, place, monkeypatch):
    """What of an earlier report is removed; a file that somebody has changed never is."""
    outdated = {f"figures/{n}.svg": bytes([n]) for n in range(5)}
    changed = {"notes.md": b"my notes"}
    report_files.write_whole(place, outdated | changed | {report_files.PAGE: b"page"})
    (place / "notes.md").write_bytes(b"my own notes")
    removed = {place / name for name in outdated}

    def read():
        found = set(report_files._outdated(place, {report_files.PAGE: b""}))
        assert found <= removed
        return None if found < removed else found

    return place / report_files.WRITTEN, read


def a_plan(record, place, monkeypatch):
    """What a study has planned, and which of its runs have failed, are files of one kind."""
    rows = [{"run": f"{n:016x}", "key": f"{n:08x}", "name": f"er, seed {n}"} for n in range(6)]
    path = place / "plan-pilot.json"
    commit({path: pack_json({"study": "pilot", "runs": rows, "seconds": 1.25})})
    return path, lambda: queue.read(path)


KINDS = {
    "record.json": a_record,
    "record-1.json": an_earlier_record,
    "run.json": a_request,
    "checkpoint.newest": a_checkpoint(NEWEST),
    "checkpoint.before": a_checkpoint(BEFORE),
    "model.safetensors": a_model,
    "a model without memory": an_exported_model,
    "network.safetensors": a_network,
    "map-phi.json": phi_accuracies,
    "map-statistics.json": a_map,
    "meta.json of the cache": a_part_of_the_cache(META),
    "pixels of the cache": a_part_of_the_cache("train.u8"),
    ".report-files.json": the_files_of_a_report,
    "plan of a study": a_plan,
}


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_or_says_the_same(kind, record, tmp_path, monkeypatch):
    path, read = KINDS[kind](record, tmp_path, monkeypatch)
    whole, value = path.read_bytes(), read()
    assert value is not None
    chance, silent, refused, same = random.Random(kind), [], 0, 0
    for _ in range(DAMAGES):
        content = damaged(whole, chance)
        while content == whole:
            content = damaged(whole, chance)
        path.write_bytes(content)
        try:
            found = read()
        except UserError as error:
            found = None
            assert_one_line(error)
        if found is None:
            refused += 1
        elif found == value:
            same += 1
        else:
            silent.append(hashlib.sha256(content).hexdigest()[:8] + _first_change(whole, content))
    print(f"{kind}: {DAMAGES} damages, {refused} refused, {same} the same, {len(silent)} silent")
    assert not silent, f"{len(silent)} of {DAMAGES}: {silent[:5]}"


def assert_one_line(error):
    assert len(str(error).splitlines()) == 1, error


def _first_change(whole, content):
    pairs = enumerate(zip(whole, content, strict=False))
    at = next((k for k, (a, b) in pairs if a != b), min(map(len, (whole, content))))
    return f" at {at}: {whole[at - 20 : at + 20]!r} became {content[at - 20 : at + 20]!r}"
