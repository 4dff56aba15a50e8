"""What the docs say is what the code does."""

import re
import runpy
import tomllib

import pytest
import torch
from cyclopts import CycloptsError, MissingArgumentError

from bntricks import cli, methods
from bntricks.errors import UserError
from bntricks.paper import load_study, study_names
from bntricks.streams import STREAMS
from helpers.command_line import process
from helpers.own_code import forgetful
from helpers.pages import (
    DOCS,
    PAGES,
    ROOT,
    WITH_COMMANDS,
    anchors,
    commands,
    links,
    name,
    python_blocks,
)
from helpers.scenery import SCENERY

pytestmark = pytest.mark.journey

WITH_PYTHON = [page for page in PAGES if python_blocks(page.read_text(encoding="utf-8"))]


def test_the_table_of_methods_is_the_codes():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    written = text.split("<!-- methods -->\n")[1].split("<!-- /methods -->")[0]
    printed = process("methods", "--recipes", "--markdown", cwd=ROOT).stdout
    assert written.strip() == printed.strip(), "run `bnt methods --recipes --markdown`"


def test_the_table_of_norms_is_the_codes():
    text = (DOCS / "norms.md").read_text(encoding="utf-8")
    written = text.split("<!-- norms -->\n")[1].split("<!-- /norms -->")[0]
    printed = process("norms", "--markdown", cwd=ROOT).stdout
    assert written.strip() == printed.strip(), "run `bnt norms --markdown` and paste it in"


def test_the_table_of_studies_is_the_codes():
    text = (DOCS / "studies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+|any) \|.*\| (\d+|–) \|$", text, re.MULTILINE)
    assert sorted(row[0] for row in rows) == sorted(study_names())
    for study in (load_study(row[0]) for row in rows):
        counts = (
            (str(len(study.methods)), str(len(study.claims))) if study.streams else ("any", "–")
        )
        assert (study.name, *counts) in rows


def test_the_architecture_has_a_row_for_each_folder_of_the_source():
    source = ROOT / "src" / "bntricks"
    packages = {path.parent.relative_to(source) for path in source.rglob("__init__.py")}
    there = {f"{package.as_posix()}/" for package in packages} - {"./"} | {"bntricks/"}
    assert set(house()) == there


def test_every_file_of_the_source_says_first_what_it_is():
    source_files = runpy.run_path(DOCS / "conf.py")["source_files"]
    described = dict(source_files(ROOT / "src" / "bntricks"))
    assert len(described) > 100
    for path, sentence in described.items():
        assert sentence[-1:] in ".:?", f"{path}: {sentence!r}"


def test_the_floors_of_the_architecture_are_those_that_the_linter_enforces():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {
        name: number
        for number, layer in enumerate(reversed(layers))
        for name in re.split(r"\W+", layer)
    }
    pieces, *folders = house()
    files = (ROOT / "src" / pieces).glob("[a-z]*.py")
    ground = {*(path.stem for path in files), "system", "plugins"}
    floors = [floor[name] for each in folders if (name := each.split("/")[0]) not in ground]
    assert floors == sorted(floors)
    assert max(floor[name] for name in ground) < min(floors)


def house():
    """The folders of the architecture's table, bottom up."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    folders = re.findall(r"^\| `([\w/]+/)` \|", text, re.MULTILINE)
    assert len(folders) == len(set(folders)), "a folder has one row"
    return folders


@pytest.mark.usefixtures(forgetful.__name__)  # what a page registers goes with it
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, one_process, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        names = {"__name__": "page", **SCENERY.get(name(page), dict)()}
        for line, block in python_blocks(page.read_text(encoding="utf-8")):
            # Its own line numbers, so that a failure points into the page.
            exec(compile("\n" * (line - 1) + block, name(page), "exec"), names)
        for test in [value for key, value in names.items() if key.startswith("test_")]:
            test()


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_every_command_of_a_page_is_one_that_can_be_typed(page):
    for command in commands(page.read_text(encoding="utf-8")):
        try:
            check(command)
        except (CycloptsError, UserError) as error:
            pytest.fail(
                f"{name(page)}, line {command.line}: bnt {' '.join(command.words)}: {error}"
            )


@pytest.mark.parametrize(
    "wrong",
    [
        "    bnt rum --method er",
        "    bnt run --method er-bmt",
        "    bnt run --method der++ --gamma 1",
        "    bnt run --stream seq-cifar11",
        "    bnt run --epochs none",
        "    bnt study pilot --sclae lite",
        "    bnt study pilto",
        "    bnt study pilot --methods gme",
        "    bnt study pilot \\\n        --seed 3",
        "    bnt predict model.safetensors",
        "    bnt report runs --out  # where to?",
        "    torchrun --nproc-per-node 2 -m bntricks run --method er --synchronized",
        "```\nbnt demo --slow\n```",
        "a sentence with `bnt demo --slow` in it",
        "    bnt study pilot --bogus 3 …",
        "a sentence with `bnt run --method er-bmt` in it",
        "a sentence with `bnt study pilto` in it",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(wrong):
    (command,) = commands(wrong)
    with pytest.raises((CycloptsError, UserError)):
        check(command)


def test_a_fragment_or_dots_stand_for_what_is_left_out():
    for text in ("see `bnt export --onnx FILE`", "    bnt learn … --epochs 3", "    bnt learn ..."):
        (command,) = commands(text)
        check(command)


def check(command):
    """Bind a command without running it; then whatever it names must be there. A NAME in capitals
    stands for any."""
    try:
        _, bound, _ = cli.app.parse_args(
            list(command.words), exit_on_error=False, print_error=False
        )
    except MissingArgumentError:
        if command.whole:
            raise
        return
    given = bound.arguments
    if given.get("imports") or given.get("name", "").endswith(".toml"):
        return  # which may name what is in a file of the reader's
    config = given.get("config")
    method = config.method if config else given.get("method")
    if method and not method.isupper():
        methods.make(method, **given.get("hyper", {}))
    study = given.get("name", "")
    if study and not study.isupper():
        load_study(study)
    for known in given.get("methods", ()):
        if not known.isupper():
            methods.find(known)
    for stream in (*given.get("streams", ()), *([config.stream] if config else ())):
        if stream not in STREAMS:
            raise UserError(f"unknown stream {stream}")


@pytest.mark.parametrize("page", [*WITH_COMMANDS, *DOCS.glob("evidence/*.md")], ids=name)
def test_links_and_images_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for address in links(text):
        if address.startswith(("https://", "http://")):
            continue
        path, _, anchor = address.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{name(page)} links to {address}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), address


def test_every_page_is_found_from_the_readme():
    index = {(DOCS / link).resolve() for link in links((DOCS / "README.md").read_text("utf-8"))}
    assert {page for page in DOCS.glob("*.md") if page.name != "README.md"} <= index
    results = {(DOCS / link).resolve() for link in links((DOCS / "results.md").read_text("utf-8"))}
    assert {*DOCS.glob("evidence/*")} <= results
    assert "docs/README.md" in links((ROOT / "README.md").read_text("utf-8"))


def test_the_list_of_pages_calls_each_by_its_title():
    listed = re.findall(r"^- \[(.*?)\]\((.*?\.md)\)", (DOCS / "README.md").read_text("utf-8"), re.M)
    assert len(listed) > 20
    for title, page in listed:
        assert (DOCS / page).read_text("utf-8").splitlines()[0] == f"# {title}"


@pytest.mark.parametrize("page", ["getting-started", "doctor", "your-model", "teaching"])
def test_pages_for_beginners_show_pictures(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"!\[\w[^]]{30,}\]\(figures/[\w-]+\.svg\)", text)
