"""The explorer: what stands in a scene, what is averaged, and a page that is whole and safe."""

import json
import re

import pytest

from bntricks.errors import UserError
from bntricks.report.explorer.page import section, write_explorer
from bntricks.report.explorer.scenes import scenes
from bntricks.report.files import svg
from bntricks.report.records import load_records
from helpers.pages import DOCS
from helpers.probed import a_pair, a_probed_run
from helpers.records import HOSTILE, a_run
from write_demo import still


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    runs = [*a_pair(), a_probed_run(HOSTILE, start=30.0)]
    path = write_explorer(scenes(runs), tmp_path_factory.mktemp("e") / "e.html", "bnt explore runs")
    return path.read_text(encoding="utf-8")


def test_a_point_is_the_mean_over_the_seeds_at_a_share_that_all_have():
    [scene] = scenes([a_probed_run(seed=0), a_probed_run(seed=1, start=50.0, shares=(0.0, 0.2))])
    [line] = scene.lines
    assert (line.seeds, [point.share for point in line.points]) == (2, [0.0, 0.2])
    assert (line.points[1].acc, line.points[1].tasks) == (51.0, (51.0, 82.0))


def test_methods_of_one_protocol_share_a_scene_and_er_with_bn_tricks_is_shown_first():
    others = [a_probed_run(method, epochs=7) for method in ("der++", "der++-bnt", "er-ace")]
    first, second = scenes([*others, *a_pair(), a_run("er-ace")])
    assert [line.method for line in first.lines] == ["er", "er-bnt"]
    assert [line.method for line in second.lines] == ["der++", "der++-bnt", "er-ace"]
    assert [line.method for line in second.pair] == ["der++", "der++-bnt"]
    assert "epochs 7" in second.title
    assert "--epochs 7" in second.lines[0].command
    assert second.lines[0].command.endswith("--probe phi")


def test_sizes_of_the_memory_are_not_compared_although_sgd_has_none():
    runs = [a_probed_run(m, memory=size) for m in ("er", "er-bnt") for size in (100, 200)]
    found = scenes([a_probed_run("sgd", memory=None), *runs])
    assert [len(scene.lines) for scene in found] == [3, 2]
    for scene in found:
        memories = {line.command.split("--memory ")[1].split()[0] for line in scene.pair}
        assert len(memories) == 1


def test_runs_that_share_no_measured_share_have_no_point():
    with pytest.raises(UserError, match="the probe phi"):
        scenes([a_probed_run(seed=0, shares=(0.0,)), a_probed_run(seed=1, shares=(0.2, 1.0))])


def test_runs_that_were_not_probed_are_refused_with_what_to_do():
    with pytest.raises(UserError, match="the probe phi"):
        scenes([a_run("er")])


def test_a_method_alone_is_shown_against_itself():
    [scene] = scenes([a_probed_run("er")])
    assert scene.pair == (scene.lines[0],) * 2
    assert section([scene]).content.count("recognises") == 1


def test_the_words_and_the_picture_are_of_a_measured_share(html):
    assert "At 20% (measured): Replay (ER) recognises 43% of the old classes and 82% of" in html
    drawn = re.findall(r'class="live"[^>]*>(<svg.*?</svg>)', html, re.DOTALL)
    assert len(drawn) == 3
    assert all("currentColor" in each for each in drawn)
    assert html.count("hidden><label") == 2  # without scripts nothing can be moved


def test_every_measured_number_is_in_a_table(html):
    table = html[html.index('id="explorer-numbers"') :]
    assert table[: table.index("</table>")].count("<tr>") == 1 + 3 * 4


def test_every_script_is_allowed_by_its_hash_and_no_name_is_markup(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.count("sha256-") == html.count("<script>") == 3
    assert "unsafe" not in policy.split(";")[1]
    assert "<b>" not in html[html.index("<body>") : html.index("<script>")]
    data = re.search(r'id="explorer-scenes">(.*?)</script>', html, re.DOTALL)[1]
    assert HOSTILE in [line["name"] for line in json.loads(data)["scenes"][0]["lines"]]


def test_a_hostile_name_is_drawn_as_text():
    [scene] = scenes([a_probed_run(HOSTILE + "\x07", stream=HOSTILE)])
    content = section([scene]).content
    assert "<b>" not in content
    assert "\x07" not in content
    assert "&lt;b&gt;" in content[content.index("<svg") :]


def test_accuracy_by_task_is_shown_of_scenes_that_have_it():
    older = a_probed_run("er", shares=(0.0, 1.0))
    at = [point.model_copy(update={"tasks": None}) for point in older.phi.by_share]
    phi = older.phi.model_copy(update={"by_share": tuple(at)})
    [scene] = scenes([older.model_copy(update={"phi": phi})])
    assert '<figure class="tasks" hidden>' in section([scene]).content
    assert '<figure class="tasks">' in section(scenes([older])).content


def test_the_picture_in_the_docs_is_of_the_demo_s_records():
    pair = scenes(load_records(DOCS / "demo"))[0].pair
    drawn = (DOCS / "figures" / "explorer.svg").read_bytes()
    assert svg(still(pair)) == drawn, "run `python benchmarks/write_demo.py`"
