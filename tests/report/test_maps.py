"""Maps of features: the file is whole or refused, and the figure shows what the file says."""

import base64
import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageColor

from bntricks.errors import UserError
from bntricks.paper import load_study
from bntricks.report import write_report
from bntricks.report.build import build
from bntricks.report.figures.maps import COLOURS, GRID, SIDE, placed, regions
from bntricks.report.files import rendered
from bntricks.report.records import load_records
from bntricks.runs.record import file as records, maps
from bntricks.runs.record.maps import BiasedPhi
from helpers.feature_maps import (
    LABELS,
    MEASURED,
    NAMES,
    a_map,
    a_panel,
    a_picture,
    of_overlap,
    of_statistics,
    written,
)
from helpers.records import HOSTILE, a_run


@pytest.fixture
def runs(tmp_path):
    """Both studies' runs; ER's first seed was never looked at."""
    written(tmp_path, {}, "er", 0)
    written(tmp_path, {"overlap": of_overlap(before=LABELS[::-1])}, "er", 1)
    written(tmp_path, {"statistics": of_statistics(), "overlap": of_overlap()}, "er-bnt", 0)
    written(tmp_path, {"overlap": of_overlap(after=(2,) * 8)}, "er-bnt", 1)
    return tmp_path


def maps_of(folder):
    return build(load_records([folder])).maps


def test_a_map_comes_back_from_disk_as_it_was(tmp_path):
    path = maps.path_in(tmp_path, "statistics")
    assert maps.load(path) is None
    maps.save(of_statistics(), path)
    assert maps.load(path) == of_statistics()
    assert maps.load(path / "map-x.json") is None  # a record that lies outside of a run's folder


def changed(change):
    whole = json.loads(of_statistics().model_dump_json())
    change(whole)
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not whole JSON"),
        (of_statistics().model_dump_json()[:-40], "not whole JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a JSON object"),
        (changed(lambda m: m.pop("labels")), "labels: Field required"),
        (changed(lambda m: m.update(more=1)), "more: Extra inputs"),
        (changed(lambda m: m["labels"].pop()), "every image needs a label"),
        (changed(lambda m: m["panels"][1]["y"].pop()), "every image needs a label"),
        (changed(lambda m: m["panels"][0]["predicted"].append(1)), "every image needs a label"),
        (changed(lambda m: m["labels"].__setitem__(0, 4)), "a label without a name"),
        (changed(lambda m: m["labels"].__setitem__(0, -1)), "labels.0: "),
        (changed(lambda m: m["panels"][0]["x"].__setitem__(0, None)), "panels.0.x.0: "),
        (changed(lambda m: m.update(panels=[])), "panels: "),
        (changed(lambda m: m["images"].__setitem__(0, "https://x.y/z.png")), "images.0: "),
        (changed(lambda m: m["images"].__setitem__(0, 'data:image/png;base64,"><b>')), "images.0"),
        (changed(lambda m: m["biased_phi"].update(acc_lost=0.0)), "acc_lost does not follow"),
        (changed(lambda m: m["biased_phi"].update(last_task_gained=0)), "last_task_gained does"),
        (changed(lambda m: m["biased_phi"].update(biased_acc=40.0)), "biased_acc does not follow"),
        (changed(lambda m: m["biased_phi"].update(accuracy=[])), "an accuracy on every task"),
    ],
)
def test_a_damaged_map_is_one_clear_line_and_no_picture(tmp_path, text, reason):
    run = written(tmp_path, {})
    maps.path_in(run, "statistics").write_text(text)
    with pytest.raises(UserError, match=rf"map-statistics.json is .* map of a run .*{reason}") as e:
        write_report(load_records([tmp_path]), tmp_path / "report")
    assert len(str(e.value).splitlines()) == 1
    assert not (tmp_path / "report").exists()


def test_numbers_of_a_record_must_follow_from_each_other(tmp_path):
    run = written(tmp_path, {}, biased_phi=MEASURED.model_dump(mode="json"))
    (record,) = load_records([run])
    assert record.biased_phi.acc_lost == 15.0
    contradicting = MEASURED.model_copy(update={"acc_lost": 1.0})
    records.save(record.model_copy(update={"biased_phi": contradicting}), run)
    with pytest.raises(UserError, match="acc_lost does not follow"):
        load_records([run])


def test_a_map_of_another_training_than_its_record_is_refused(tmp_path):
    other = BiasedPhi.of((61.0, 80.0), (20.0, 90.0), 55.0, 75.0)
    features = a_map(a_panel("balanced"), a_panel("biased"), measured=other)
    written(tmp_path, {"statistics": features})
    with pytest.raises(UserError, match="are of different trainings"):
        maps_of(tmp_path)


def test_statistics_are_two_panels_of_the_first_seed_with_their_numbers(runs):
    figure, _ = maps_of(runs)
    assert figure.name == "map-statistics-seq-cifar10"
    assert figure.title == "Balanced and biased statistics, Seq-CIFAR-10, ER-BNT, seed 0"
    assert "goes from 55.0% to 75.0%" in figure.text
    panels = ["balanced φ: ACC 70.0%", "biased φ: ACC 55.0%"]
    assert [row["panel"] for row in figure.rows] == [p for p in panels for _ in LABELS]
    assert [row["label"] for row in figure.rows] == 2 * [NAMES[k] for k in LABELS]
    assert {row["predicted"] for row in figure.rows[8:]} == {"=1+1"}
    assert all(0 <= row[axis] <= SIDE for row in figure.rows for axis in "xy")
    # The second is the first, turned: what t-SNE leaves open is undone.
    own, other = ([(r["x"], r["y"]) for r in figure.rows[n : n + 8]] for n in (0, 8))
    assert np.allclose(own, other, atol=0.02)


def test_overlap_has_three_panels_of_the_first_seed_that_has_all(runs):
    _, figure = maps_of(runs)
    assert figure.name == "map-overlap-seq-cifar10"
    assert figure.title.endswith("Seq-CIFAR-10, ER and ER-BNT, seed 1")
    assert "before the last of them was learned, by the run with ER" in figure.text
    titles = list(dict.fromkeys(row["panel"] for row in figure.rows))
    assert titles == ["before task 2 (ER)", "after it with ER", "after it with ER-BNT"]
    said = [[NAMES.index(row["predicted"]) for row in figure.rows[n : n + 8]] for n in (0, 8, 16)]
    assert said == [list(LABELS[::-1]), list(LABELS), [2] * 8]


@pytest.mark.parametrize("knobs", [{"epochs": 3}, {"fingerprint": "e" * 16}])
def test_maps_of_different_protocols_or_data_never_share_a_figure(tmp_path, knobs):
    written(tmp_path, {"overlap": of_overlap()}, "er", 0)
    written(tmp_path, {"overlap": of_overlap()}, "er-bnt", 0, **knobs)
    assert maps_of(tmp_path) == ()


def test_maps_of_different_images_are_refused(tmp_path):
    written(tmp_path, {"overlap": of_overlap()}, "er", 0)
    others = a_map(a_panel("before"), a_panel("after"), images=(a_picture(255),) * 8)
    written(tmp_path, {"overlap": others}, "er-bnt", 0)
    with pytest.raises(UserError, match="show different images"):
        maps_of(tmp_path)


def test_runs_without_maps_have_no_figure_of_them(tmp_path):
    written(tmp_path, {})
    assert build([*load_records([tmp_path]), a_run("er", 5)]).maps == ()


def test_the_page_gets_each_picture_once_and_every_name_as_text(runs):
    for figure in maps_of(runs):
        text = json.dumps(figure.spec)
        pictures = of_statistics().images
        assert [text.count(picture) for picture in pictures] == [1] * 8
        assert "image" not in figure.rows[0]
        marks = figure.spec["spec"]["layer"][1]["encoding"]
        assert marks["fill"]["scale"]["domain"] == list(NAMES)
        assert marks["fill"]["scale"] == marks["stroke"]["scale"]
        assert (marks["fill"]["field"], marks["stroke"]["field"]) == ("label", "predicted")
        assert len(set(marks["shape"]["scale"]["range"])) == 4
        assert [tip["field"] for tip in marks["tooltip"]] == ["label", "predicted", "image"]


def test_two_classes_of_one_name_are_told_apart(tmp_path):
    twins = of_statistics().model_copy(update={"class_names": ("cat", "cat", "owl", "elk")})
    written(tmp_path, {"statistics": twins})
    (figure,) = maps_of(tmp_path)
    assert {row["label"] for row in figure.rows} == {"cat (0)", "cat (1)", "owl", "elk"}


def test_maps_are_drawn_in_every_format_and_no_name_is_markup(runs):
    figure = maps_of(runs)[1]
    contents = {name.rpartition(".")[2]: content for name, content in rendered(figure).items()}
    svg = ElementTree.fromstring(contents["svg"])
    space = "{http://www.w3.org/2000/svg}"
    assert HOSTILE in "".join(svg.itertext())
    assert len(svg.findall(f".//{space}image")) == 3
    symbols = [e for e in svg.iter(f"{space}path") if e.get("aria-roledescription") == "point"]
    assert len(symbols) == 3 * 8
    assert symbols[0].get("aria-label") == "cat, taken for =1+1"
    assert symbols[0].get("fill") != symbols[0].get("stroke")
    assert symbols[8].get("fill") == symbols[8].get("stroke")
    assert contents["pdf"].startswith(b"%PDF-")
    with Image.open(io.BytesIO(contents["png"])) as drawn:
        assert len(drawn.convert("RGB").getcolors(1 << 20)) > 50
    lines = contents["csv"].decode().splitlines()
    assert lines[0] == "panel,number,label,predicted,x,y"
    assert len(lines) == 1 + 3 * 8
    assert lines[1].split(",")[3] == "'=1+1"


def test_a_report_has_a_section_of_maps_and_a_study_without_a_probe_has_none(tmp_path, runs):
    records = load_records([runs])
    html = write_report(records, tmp_path / "all").read_text()
    assert '<section id="maps"' in html
    assert len(list((tmp_path / "all" / "figures").glob("map-*.png"))) == 2
    study = load_study("pilot")
    er = [record for record in records if record.method == "er"]
    html = write_report(er, tmp_path / "p", study, "paper").read_text()
    assert '<section id="maps"' not in html


def test_panels_are_turned_towards_the_first_and_fill_the_square():
    own = np.random.default_rng(0).normal(size=(20, 2))
    first = placed(*own.T)
    mirrored = own @ np.array([[0.6, 0.8], [0.8, -0.6]]) * 7 + 3
    assert np.allclose(placed(*mirrored.T, first), first)
    assert not np.allclose(placed(*mirrored.T), first)
    assert first.min() >= 0
    assert first.max() <= SIDE
    assert np.ptp(first, axis=0).max() == pytest.approx(SIDE - 18)
    line = placed([0.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert np.ptp(line, axis=0) == pytest.approx([82, 82])  # a diagonal is the longest line
    assert np.isfinite(placed([1.0, 1.0], [2.0, 2.0])).all()


def test_regions_take_the_colour_of_the_points_around_and_fade_where_there_are_none():
    points = np.array([[10.0, 90.0], [12.0, 90.0], [90.0, 10.0], [90.0, 12.0]])
    code = regions(points, [1, 1, 10, 10]).split(",")[1]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(code))))
    assert pixels.shape == (GRID, GRID, 4)
    tenth = GRID // 10
    high_left, low_right, middle = pixels[tenth, tenth], pixels[-tenth, -tenth], pixels[GRID // 2]
    assert high_left[:3].tolist() == list(ImageColor.getrgb(COLOURS[1]))
    assert low_right[:3].tolist() == list(ImageColor.getrgb(COLOURS[0]))  # of ten, then again
    assert high_left[3] == low_right[3] > 40
    assert middle[GRID // 2, 3] == 0
