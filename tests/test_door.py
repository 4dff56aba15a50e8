"""What the program writes and reads back: never lost by a kill, never believed when damaged, and
never a reason to run code."""

import ast
import json
import multiprocessing
import os
import random
import shutil
import sys
from pathlib import Path

import pytest
import safetensors.torch as safe
from safetensors import safe_open

import bntricks
from bntricks import Config, Model, UserError
from bntricks.errors import RunError
from bntricks.files import commit, leftovers, pack_json, unpack_json, write_atomically
from bntricks.model.file import checksum as model_checksum
from bntricks.model.preprocessing import read_class_names
from bntricks.report.build import build
from bntricks.report.figures.confusion import confusion as confusion_of
from bntricks.report.files import svg, write
from bntricks.report.groups import group
from bntricks.runs.folder import REQUEST, resume, run
from bntricks.runs.record import file as record_file, phi
from bntricks.runs.record.phi import PhiAccuracies
from helpers import records
from helpers.colours import TINY
from helpers.crash_points import crash_points
from helpers.processes import completed

EVIL = """
from pathlib import Path
Path("evil-ran").touch()
from bntricks.networks.resnet import ResNet
def build(outputs):
    return ResNet(outputs, channels=1, width=4, blocks=1, stages=1)
"""
SMALL = {"stream": "seq-digits", "epochs": 1, "width": 4, "blocks": 1, "stages": 1}
ACCURACIES = PhiAccuracies.of(50.0, 60.0, task_acc=70.0, memory_acc=55.0)


@pytest.mark.fault
@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_a_kill_never_leaves_a_place_empty_that_had_a_file(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr("pathlib.Path.hardlink_to", _no_links)
    path, keep = tmp_path / "m", tmp_path / "m.before"
    path.write_bytes(b"old")
    points = 0
    for point in crash_points(lambda: write_atomically(path, b"new", keep=keep), tmp_path):
        assert path.read_bytes() in (b"old", b"new"), point
        assert not keep.exists() or keep.read_bytes() == b"old"
        for file in leftovers(path):
            file.unlink()
        path.write_bytes(b"old")
        keep.unlink(missing_ok=True)
        points += 1
    assert points >= 4
    assert (path.read_bytes(), keep.read_bytes()) == (b"new", b"old")


@pytest.mark.fault
@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_what_a_kill_leaves_of_a_change_goes_with_any_other(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr("pathlib.Path.hardlink_to", _no_links)
    monkeypatch.chdir(tmp_path)
    path, keep = Path("m"), Path("m.before")
    path.write_bytes(b"old")
    for point in crash_points(lambda: commit({path: b"new"}, keep=keep), tmp_path):
        commit({path: b"newer"})
        assert {p.name for p in tmp_path.iterdir()} <= {"m", "m.before"}, point
        keep.unlink(missing_ok=True)


@pytest.mark.fault
def test_a_file_that_a_killed_writer_has_kept_already_gets_no_third_name(tmp_path):
    path, keep = tmp_path / "m", tmp_path / "m.before"
    path.write_bytes(b"old")
    keep.hardlink_to(path)
    write_atomically(path, b"new", keep=keep)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"m": b"new", "m.before": b"old"}


def _no_links(self, target):
    raise OSError(95, "Operation not supported")


@pytest.mark.fault
def test_what_a_killed_save_has_left_goes_with_the_next_command(bnt, model):
    unfinished = model.with_name(f".{model.name}.0123abcd.partial")
    other = model.with_name(f".{model.name}.other.partial")
    for path in (unfinished, other):
        path.write_bytes(b"images of a class that is gone")
    assert bnt("rename-class", model, Model.load(model).classes[0], "red").code == 0
    assert not unfinished.exists()
    assert other.exists(), "what is not ours stays"


@pytest.mark.fault
def test_the_lock_of_a_model_is_nobody_elses_file(bnt, model):
    poetry, lock = model.rename(model.with_name("poetry")), model.with_name("poetry.lock")
    lock.write_text("versions")
    assert bnt("rename-class", poetry, Model.load(poetry).classes[0], "red").code == 0
    assert lock.read_text() == "versions"


def _learn(arguments):
    """`bnt learn` in a process of its own; its exit code."""

    from bntricks.cli import main

    sys.argv = ["bnt", *arguments]
    try:
        main()
    except SystemExit as left:
        return left.code
    return 0


@pytest.mark.fault
def test_of_two_that_create_the_same_model_one_is_refused(first, tmp_path):
    into = tmp_path / "m"
    arguments = list(map(str, ("learn", first, "--into", into, *TINY, "--epochs", 1)))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        codes = sorted(pool.map(_learn, [arguments, arguments], chunksize=1))
    assert codes in ([0, 3], [0, 2]), "2: it came after the other, to a model that exists"
    assert len(Model.load(into).metadata.taught) == 1


def test_a_run_that_a_file_describes_does_not_import_what_the_file_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = run(Config(method="sgd", **SMALL), out=tmp_path / "runs").path
    (tmp_path / "evil_door.py").write_text(EVIL)
    request = unpack_json((folder / REQUEST).read_bytes())
    request["config"]["net"] = "evil_door:build"
    for content in (pack_json(request), json.dumps(request).encode()):
        (folder / REQUEST).write_bytes(content)
        with pytest.raises(UserError, match="names code to build the network, evil_door:build"):
            resume(folder)
    assert not (tmp_path / "evil-ran").exists()


def test_a_network_that_is_named_again_is_resumed(tmp_path, monkeypatch):
    (tmp_path / "mine_door.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = Config(method="sgd", net="mine_door:build", stream="seq-digits", epochs=1)
    record = run(config, out=tmp_path / "runs")
    with pytest.raises(UserError, match="mine_door:build"):
        resume(record.path)
    assert resume(record.path, net="mine_door:build").digest == record.digest


def test_a_run_on_data_whose_path_is_not_utf8_is_resumed(tmp_path):
    data = tmp_path / os.fsdecode(b"d\xff")
    data.mkdir()
    record = run(Config(method="sgd", **SMALL), data=data, out=tmp_path / "runs")
    (record.path / record_file.NAME).unlink()
    assert resume(record.path).digest == record.digest


def test_a_study_in_a_file_does_not_import_what_it_names(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_study.py").write_text(EVIL)
    (tmp_path / "s.toml").write_text(
        'title = "T"\nmethods = ["sgd"]\nstreams = ["seq-digits"]\n'
        '[scale.lite]\nseeds = 1\noverrides = { epochs = 1, net = "evil_study:build" }\n'
    )
    refused("study", "s.toml", words=["names code to build the network, evil_study:build", "--net"])
    assert not (tmp_path / "evil-ran").exists()


def test_a_probes_file_that_was_changed_does_not_reach_a_record(tmp_path):
    path = tmp_path / "map-phi.json"
    phi.save(ACCURACIES, path)
    assert phi.load(path) == ACCURACIES
    path.write_bytes(path.read_bytes().replace(b"55.0", b"99.0"))
    assert phi.load(path) is None
    path.write_text(ACCURACIES.model_dump_json())
    assert phi.load(path) is None, "without a checksum nothing tells whether it is whole"


@pytest.mark.fault
def test_no_damage_of_a_probes_file_or_a_request_is_silent(tmp_path):
    folder = run(Config(method="sgd", **SMALL), out=tmp_path / "runs").path
    probe = tmp_path / "map-phi.json"
    phi.save(ACCURACIES, probe)
    chance = random.Random(0)
    whole = {path: path.read_bytes() for path in (probe, folder / REQUEST)}
    for path, content in whole.items():
        value = unpack_json(content)
        for _ in range(300):
            damaged = bytearray(content)
            for _ in range(chance.choice((1, 1, 4))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            if chance.random() < 0.2:
                damaged = damaged[: chance.randrange(len(damaged))]
            if bytes(damaged) == content:
                continue
            try:
                assert unpack_json(bytes(damaged)) == value, (path.name, bytes(damaged))
            except ValueError:
                continue
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ("[" * 80 + "]" * 80, "nested too deeply"),
        ("1" * 10_000, "more than 40 digits"),
        ('{"a": -' + "1" * 50 + "}", "more than 40 digits"),
        ("NaN", "nan is not a valid number"),
        ('{"a": [1e999]}', "inf is not a valid number"),
        ("[]", "not a JSON object"),
        ("{", "not whole"),
        (" " * (1 << 26) + "{}", "larger than 67,108,864 bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_json_that_is_deep_huge_or_of_another_kind_is_a_plain_error(text, reason):
    with pytest.raises(ValueError, match=reason):
        unpack_json(text.encode(), unsigned=True)


GUARDED = {
    *("json.load", "json.loads", "tomllib.load", "tomllib.loads"),
    *("os.replace", "os.rename", "os.renames", "os.link", "shutil.move"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile"),
}
METHODS = {"rename", "hardlink_to", "write_text", "write_bytes", "save_file"}
EXEMPT = {
    ("runs/describe.py", "write_text"): "a switch of the kernel's, which is not a file",
    ("streams/files/dataset.py", "open"): "pixels, block by block, in a folder that is moved whole",
    ("model/export.py", "open"): "of nothing, /dev/null",
    ("cli/__init__.py", "open"): "of nothing, /dev/null",
}


def past_the_door(tree):
    """The calls in this code that parse, move or write files."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names |= {each.asname or each.name: f"{module}{each.name}" for each in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, _, rest = ast.unparse(node.func).partition(".")
        called = f"{names.get(first, first)}.{rest}".strip(".")
        method = called.rpartition(".")[2]
        if called in GUARDED:
            yield called
        elif method == "open" and any(map(_is_a_mode_that_writes, ast.iter_child_nodes(node))):
            yield "open"
        elif isinstance(node.func, ast.Attribute) and (
            # of a model's classes, not of a path
            (method in METHODS and not any(isinstance(each, ast.Dict) for each in node.args))
            # of a path: text has two arguments, and values have names for theirs
            or (method == "replace" and len(node.args) == 1 and not node.keywords)
        ):
            yield method


def _is_a_mode_that_writes(node):
    value = getattr(node.value if isinstance(node, ast.keyword) else node, "value", None)
    return isinstance(value, str) and len(value) <= 3 and {*value} & {*"wx+"} != set()


def test_files_are_parsed_moved_and_written_in_one_place():
    """Past the door there is no checksum, no bound, no lock and no way back from a kill."""
    source = Path(bntricks.__file__).parent
    found = {
        (path.relative_to(source).as_posix(), call)
        for path in source.rglob("*.py")
        if path != source / "files.py"
        for call in past_the_door(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(EXEMPT)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("import json as j\nj.loads(x)", "json.loads"),
        ("from json import load\nload(x)", "json.load"),
        ("from json import loads as read\nread(x)", "json.loads"),
        ("import tomllib\ntomllib.loads(x)", "tomllib.loads"),
        ("import os\nos.replace(a, b)", "os.replace"),
        ("from os import rename\nrename(a, b)", "os.rename"),
        ("from shutil import move\nmove(a, b)", "shutil.move"),
        ("(folder / a).replace(b)", "replace"),
        ("path.rename(b)", "rename"),
        ("path.write_text(x)", "write_text"),
        ("path.open('xb')", "open"),
        ("open(path, mode='w')", "open"),
        ("text.replace(a, b)", None),
        ("now.replace(microsecond=0)", None),
        ("model.rename({a: b})", None),
        ("path.open('rb')", None),
        ("open(path)", None),
        ("log.open('a')", None),
    ],
)
def test_the_door_is_watched(code, call):
    assert [*past_the_door(ast.parse(code))] == ([] if call is None else [call])


def test_a_study_that_is_nested_too_deeply_or_asks_for_too_much_is_a_clear_line(refused, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("a = " + "[" * 200_000)
    refused("study", path, words=["nested too deeply"])
    path.write_text(
        'title = "T"\nmethods = ["sgd"]\nstreams = ["seq-digits"]\n'
        "[scale.lite]\nseeds = 1000000000\n"
    )
    refused("study", path, words=["seeds", "10000"])
    for command in (["study", "pilot"], ["demo"]):
        refused(*command, "--seeds", 1_000_000_000, words=["--seeds", "10000"])


@pytest.mark.parametrize("text", ["[" * 200_000, '["a", ' + "1" * 5000 + "]"])
def test_a_file_of_class_names_that_is_no_such_file_is_a_clear_line(text, tmp_path):
    path = tmp_path / "names.json"
    path.write_text(text)
    with pytest.raises(UserError, match="neither a list of names"):
        read_class_names(path)


def changed_model(model, change):
    """The model file with another description and a checksum that fits it."""
    tensors = safe.load(model.read_bytes())
    with safe_open(model, "pt") as file:
        values = json.loads(file.metadata()["bntricks"])
    change(values)
    values.pop("checksum")
    values["checksum"] = model_checksum(values, tensors)
    model.write_bytes(safe.save(tensors, {"bntricks": json.dumps(values)}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update(shape=[3, 20_000, 20_000]), "too large"),
        (lambda v: v["taught"][0].update(date="<b>today</b>"), "date"),
        (lambda v: v["versions"].update(torch="1\n2"), "versions"),
        (lambda v: v["versions"].update({"two words": "1"}), "versions"),
    ],
)
def test_a_hostile_description_with_a_valid_checksum_is_refused(model, change, words):
    Model.load(model)
    changed_model(model, change)
    with pytest.raises(UserError, match=words):
        Model.load(model)


def test_a_stream_of_many_tasks_has_a_report(tmp_path):
    tasks = 120
    r = [[50.0 if j <= i else None for j in range(tasks)] for i in range(tasks)]
    data = {
        "fingerprint": "f" * 16,
        "classes": [[k] for k in range(tasks)],
        "class_names": [str(k) for k in range(tasks)],
        "images": {"train": 200, "test": 2 * tasks},
        "official_images": None,
        "cut_down": False,
    }
    confusion = {k: {k: 1, (k + 1) % tasks: 1} for k in range(tasks)}
    record = records.a_run(r=r, data=data, confusion=confusion)
    figure = confusion_of(group([record]))
    assert svg(figure).startswith(b"<svg")


def test_a_figure_that_cannot_be_drawn_costs_a_line(tmp_path, monkeypatch):
    def fails(figure):
        raise RunError(f"cannot draw the figure {figure.name}: no")

    monkeypatch.setattr("bntricks.report.files.rendered", fails)
    said = []
    page = write(build([records.a_run()]), tmp_path, warn=said.append)
    assert page.exists()
    assert said
    assert all("the rest of the report is complete" in line for line in said)


@pytest.mark.fault
def test_a_closed_terminal_stops_a_run_between_two_steps(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from bntricks.system.stopping import postponed\n"
        "signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))\n"
        "with postponed() as asked:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    assert asked()\n"
        "    print('the step was finished', flush=True)\n"
    )
    done = completed(script=code, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("the step was finished\n", 129), done.stderr
