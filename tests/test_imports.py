"""A user's own methods, streams, networks and norms: found by name, and part of a run's name."""

import hashlib
import json
from dataclasses import replace

import pytest

from bntricks import NETWORKS, Config, UserError, import_code, run
from bntricks.methods import METHODS, entries
from bntricks.plugins.imports import loaded, own_fault
from bntricks.report.commands import run_command
from bntricks.report.groups import group
from bntricks.runs.folder import resume
from bntricks.runs.readings import trunk
from bntricks.runs.resolve import resolve
from bntricks.streams.registry import OPENERS
from bntricks.sweeps.local import Failure, Shared, sweep
from helpers.command_line import DIGITS, bnt, process, refused
from helpers.own_code import EXAMPLE, OWN, TINY, forgetful, own_method
from helpers.records import runs

DIGITS_NOW = {"stream": "seq-digits", "images_per_class": 24, "epochs": 1, "width": 2}
DIGITS_NOW |= {"blocks": 1, "stages": 2}
pytestmark = pytest.mark.usefixtures(forgetful.__name__)


def test_one_file_brings_a_method_a_stream_a_network_and_a_norm(tmp_path):
    import_code(EXAMPLE)
    record = run(Config(**OWN, **TINY), out=tmp_path)
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    assert record.config.imports == {"my_method.py": digest}
    assert run_command(record.config).startswith("bnt run --import my_method.py --method my-er-bnt")
    assert run(Config(**OWN, **TINY), out=tmp_path).already_there


CORRECTION = """
from bntricks import HEADS, RECALIBRATIONS, Correction, correction

@correction("mine")
class Mine(Correction):
    pass

HEADS.add("my-head", lambda layer: layer)
RECALIBRATIONS.add("my-way", lambda state, samples: None)
"""


@pytest.mark.parametrize(
    ("option", "name"), [("correct", "mine"), ("head", "my-head"), ("recalibrate", "my-way")]
)
def test_a_correction_a_head_or_a_recalibration_is_part_of_the_identity(tmp_path, option, name):
    file = tmp_path / "mine.py"
    file.write_text(CORRECTION)
    import_code(file)
    _, config = resolve(Config(method="er", **DIGITS_NOW, **{option: name}), None)
    assert config.imports == {"mine.py": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert trunk(config) == config
    assert resolve(Config(method="er", **DIGITS_NOW), None)[1].imports == {}


def test_what_the_package_registers_meanwhile_is_not_the_users(tmp_path):
    file = tmp_path / "first.py"
    file.write_text("import bntricks.streams.sources.digits\n" + own_method(tmp_path).read_text())
    done = process("run", "--import", file, "--method", "sgd", *DIGITS, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["config"]["imports"] == {}


def test_the_content_is_part_of_the_identity_of_runs_that_use_it(tmp_path):
    import_code(own_method(tmp_path, weight=0.5))
    [half] = [resolve(Config(method="mine", hyper={"weight": 1.0}, **DIGITS_NOW), None)]
    before = run(Config(method="er", **DIGITS_NOW), out=tmp_path)
    import_code(own_method(tmp_path, weight=0.4))  # the same file, edited
    [less] = [resolve(Config(method="mine", hyper={"weight": 1.0}, **DIGITS_NOW), None)]
    assert half[1].identity("data") != less[1].identity("data")
    assert half[1].model_copy(update={"imports": {}}) == less[1].model_copy(update={"imports": {}})
    assert run(Config(method="er", **DIGITS_NOW), out=tmp_path).path == before.path
    assert before.config.imports == {}


def test_runs_without_own_code_keep_their_names():
    _, config = resolve(Config(method="er", **DIGITS_NOW), None)
    assert config.identity("data") == "68894696cca48fb2"


def test_a_name_that_is_taken_is_refused_and_stays_what_it_was(tmp_path):
    er = entries()["er"]
    with pytest.raises(UserError, match=r"my\.py:4: there is a method named 'er' already: choose"):
        import_code(own_method(tmp_path, name="er"))
    assert entries()["er"] is er
    import_code(own_method(tmp_path))
    with pytest.raises(UserError, match="there is a method named 'mine' already"):
        import_code(own_method(tmp_path, file="another.py"))
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UserError, match="have the same name: rename one of them"):
        import_code(own_method(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = z\n", "bad.py:2: NameError: name 'z' is not defined"),
        ("def f(:\n", "bad.py:1: SyntaxError: "),
        ("raise SystemExit(3)\n", "bad.py:1: SystemExit: 3"),
        ("\n\nimport nowhere\n", "bad.py:3: ModuleNotFoundError: No module named 'nowhere'"),
        ("a\0b", "bad.py"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_line_with_its_place(tmp_path, text, message):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(UserError) as caught:
        import_code(tmp_path / "bad.py")
    assert str(caught.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(caught.value)
    assert not loaded()


def test_what_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, reason in (("no.py", "no such file"), ("nowhere", "no such module")):
        with pytest.raises(UserError, match=f"import {name}: there is {reason}"):
            import_code(name)


def test_a_module_is_imported_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = own_method(tmp_path, name="by-module", file="a_module_of_mine.py")
    import_code("a_module_of_mine")
    source = METHODS.source("by-module")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (source.name, source.sha256) == ("a_module_of_mine", digest)
    [code] = loaded()
    elsewhere = replace(code, source=replace(source, sha256="0" * 64))
    with pytest.raises(UserError, match="it is not the same here as where the command was given"):
        elsewhere.load()


def test_an_error_of_ones_own_code_is_named_with_its_place(tmp_path):
    file = tmp_path / "faulty.py"
    file.write_text("def fault():\n    return [][1]\n")
    import_code(file)
    import sys

    with pytest.raises(IndexError) as caught:
        sys.modules["bntricks_import_faulty"].fault()
    assert own_fault(caught.value) == f"{file}:2: IndexError: list index out of range"
    assert own_fault(ValueError("elsewhere")) is None


def test_workers_import_what_was_read_even_if_the_file_has_changed_since(tmp_path):
    file = own_method(tmp_path)
    import_code(file)
    file.write_text("raise ValueError\n")
    configs = [Config(method="mine", seed=seed, **DIGITS_NOW) for seed in (0, 1)]
    results = sweep(configs, Shared(out=tmp_path / "runs"), workers=1)
    assert not [each for each in results if isinstance(each, Failure)]
    assert len({str(each.config.imports) for each in results}) == 1
    assert results[0].config.imports.keys() == {"my.py"}


@pytest.mark.fault
def test_a_run_is_resumed_with_the_file_it_was_begun_with_and_only_if_the_user_names_it(
    tmp_path, monkeypatch
):
    import_code(own_method(tmp_path))
    config = Config(method="mine", **DIGITS_NOW)
    record = run(config, out=tmp_path / "runs")
    (record.path / "record.json").unlink()
    with monkeypatch.context() as forgotten:
        forgotten.delitem(METHODS._entries, "mine")
        forgotten.delitem(METHODS._sources, "mine")
        with pytest.raises(UserError, match=r"this run uses my\.py: import that file \(import\)"):
            resume(record.path)
    assert resume(record.path).digest == record.digest
    import_code(own_method(tmp_path, weight=0.25))
    with pytest.raises(UserError, match=r"my\.py has changed since this run was begun"):
        resume(record.path)


ENTRY_POINTS = """
[bntricks.methods]
theirs = a_plugin
broken = a_broken_plugin
[bntricks.networks]
theirs = a_plugin
[bntricks.streams]
theirs = a_plugin
[bntricks.norms]
theirs = a_plugin
"""


@pytest.mark.journey
def test_installed_packages_bring_their_own_by_entry_points(tmp_path):
    (tmp_path / "a_plugin-1.0.dist-info").mkdir()
    (tmp_path / "a_plugin-1.0.dist-info" / "METADATA").write_text("Name: a-plugin\nVersion: 1.0\n")
    (tmp_path / "a_plugin-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "a_plugin.py").write_bytes(EXAMPLE.read_bytes())
    (tmp_path / "a_broken_plugin.py").write_text("import nowhere\n")
    flags = [word for key, value in (OWN | TINY).items() for word in (f"--{key}", str(value))]
    done = process("run", *flags, "--json", cwd=tmp_path)  # which is on the path of `python -m`
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    assert json.loads(done.stdout)["config"]["imports"] == {"a_plugin": digest}
    for command in ("streams", "norms"):
        assert "my-" in process(command, cwd=tmp_path).stdout
    unknown = process("run", "--method", "their-other", cwd=tmp_path)
    refused(
        unknown,
        "a_broken_plugin could not be imported: ModuleNotFoundError: No module named 'nowhere'",
    )


def test_methods_of_ones_own_are_compared_with_others_and_versions_are_told_apart():
    digests = {"old": {"my.py": "a" * 64}, "new": {"my.py": "b" * 64}}
    both = group(runs("er", [40, 41]) + runs("mine", [50, 51], imports=digests["old"]))
    assert both[0].comparable(both[1])
    assert [each.label for each in both] == ["ER", "mine"]
    versions = [runs("mine", [50, 51], imports=each) for each in digests.values()]
    labels = {each.label for each in group([run for version in versions for run in version])}
    assert labels == {"mine (my.py aaaaaaaa)", "mine (my.py bbbbbbbb)"}


@pytest.mark.journey
def test_the_command_line_imports_a_file_and_words_its_mistakes(tmp_path):
    own_method(tmp_path)
    run_it = ["run", "--import", "my.py", "--method", "mine", "--weight", "0.2", *DIGITS]
    done = bnt(*run_it, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["config"]["hyper"] == {"weight": 0.2}
    (tmp_path / "my.py").write_text("1 / 0\n")
    done = bnt("methods", "--import", "my.py", cwd=tmp_path)
    refused(done)
    assert done.stderr == "bnt: my.py:1: ZeroDivisionError: division by zero\n"


def test_networks_and_streams_know_where_they_come_from():
    import_code(EXAMPLE)
    assert NETWORKS.source("my-net") == OPENERS.source("my-blobs") == METHODS.source("my-er")
    assert NETWORKS.source("resnet") is None
