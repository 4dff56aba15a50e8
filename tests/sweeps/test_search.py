"""A search for hyper-parameters: its cells, what comes of them, and what it never looks at."""

import json

import pytest

from bntricks import Config, Range, RunError, UserError, search
from bntricks.cli.training import labels
from bntricks.report.search import SearchCell, SearchResult, command, heat_map, section, table
from bntricks.sweeps.local import Failure, Shared
from bntricks.sweeps.search import parse_knobs, plan_search
from helpers.command_line import DIGITS, bnt, refused
from helpers.records import HOSTILE, a_run

TINY = {"stream": "seq-digits", "images_per_class": 24, "epochs": 1, "width": 2}
TINY |= {"blocks": 1, "stages": 2}


def test_a_grid_has_every_combination_with_every_seed_and_never_the_test_images():
    planned = plan_search(Config(seed=5), {"lr": ["0.01", "0.1"], "memory": [200, 500]}, seeds=2)
    assert planned.cells == (
        {"lr": 0.01, "memory": 200},
        {"lr": 0.01, "memory": 500},
        {"lr": 0.1, "memory": 200},
        {"lr": 0.1, "memory": 500},
    )
    assert [run.seed for run in planned.runs] == [5] * 4 + [6] * 4
    assert {run.validation for run in planned.runs} == {0.1}
    own = plan_search(Config(validation=0.3), {"lr": [0.1]}, seeds=1)
    assert own.runs[0].validation == 0.3


def test_hyper_parameters_of_the_method_are_knobs_too():
    planned = plan_search(Config(method="der++"), {"alpha": ["0.1", 0.2]}, seeds=1)
    assert [run.hyper["alpha"] for run in planned.runs] == [0.1, 0.2]
    assert labels(planned.runs) == [f"der++ on seq-cifar10, alpha {alpha}" for alpha in (0.1, 0.2)]
    with pytest.raises(UserError, match=r"alhpa: neither an option .* did you mean alpha\?"):
        plan_search(Config(method="der++"), {"alhpa": [0.1]})
    with pytest.raises(UserError, match="alpha high: give a number"):
        plan_search(Config(method="der++"), {"alpha": ["high"]})


def test_draws_are_the_same_each_time_and_more_of_them_begin_alike():
    knobs = {"lr": Range(0.001, 0.1, log=True), "memory": Range(100, 1000), "batch": [16, 32]}
    few, many = (plan_search(Config(), knobs, draws=n, seeds=1).cells for n in (20, 40))
    assert many[:20] == few
    assert len({tuple(cell.values()) for cell in many}) == 40
    assert all(0.001 <= cell["lr"] <= 0.1 for cell in many)
    assert sum(cell["lr"] < 0.01 for cell in many) > 10, "a tenth of the range, half of its logs"
    assert all(isinstance(cell["memory"], int) for cell in many)
    assert {cell["batch"] for cell in many} == {16, 32}
    assert len(plan_search(Config(), {"batch": [16, 32]}, draws=20, seeds=1).cells) == 2


def test_knobs_are_read_from_text():
    knobs = parse_knobs(["lr=0.01, 0.1", "memory-batch=16,32", "kappa=1e-3..1:log", "width=2..8"])
    assert knobs == {
        "lr": ["0.01", "0.1"],
        "memory_batch": ["16", "32"],
        "kappa": Range(1e-3, 1.0, log=True),
        "width": Range(2, 8),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr", "'lr' names no values: write it as lr=0.01,0.1"),
        ("lr=0.1,", "names no values"),
        ("lr=1..", "lr 1..: write a range as 0.001..0.1"),
        ("lr=0.1..0.01", "from a smaller number to a larger"),
        ("lr=0..1:log", "above 0 if it is logarithmic"),
        ("seed=0,1", "seed: this is the same for all cells"),
    ],
)
def test_knobs_that_cannot_be_read_are_a_clear_line(text, message):
    with pytest.raises(UserError) as caught:
        parse_knobs([text])
    assert message in str(caught.value)


def test_values_that_an_option_cannot_have_are_refused_before_any_work():
    with pytest.raises(UserError, match="lr -1"):
        plan_search(Config(), {"lr": ["-1"]})
    with pytest.raises(UserError, match="a grid has listed values"):
        plan_search(Config(), {"lr": Range(0.1, 1)})
    with pytest.raises(UserError, match="nothing to search"):
        plan_search(Config(), {})


def cell(lr, memory, finals, failed=0):
    runs = [
        a_run("er", seed, final, lr=lr, memory=memory, validation=0.1)
        for seed, final in enumerate(finals)
    ]
    return SearchCell({"lr": lr, "memory": memory}, tuple(runs), failed)


FOUND = SearchResult(
    (
        cell(0.01, 200, [40, 41, 42]),
        cell(0.1, 200, [60, 61, 62]),
        cell(0.01, 500, [50, 51, 53]),
        cell(0.1, 500, [99], failed=2),
    )
)


def test_the_best_cell_has_finished_all_of_its_runs():
    assert FOUND.best.knobs == {"lr": 0.1, "memory": 200}
    assert str(FOUND).startswith("Best on validation images: lr 0.1, memory 200 (ACC 61.0), 9.7")
    assert "more seeds" not in str(FOUND)
    close = SearchResult((cell(0.1, 1, [60, 62, 64]), cell(0.2, 1, [61, 60, 64])))
    assert "more seeds may choose another" in str(close)
    hardly = SearchResult((cell(0.1, 1, [60.01, 60.02, 60.03]), cell(0.2, 1, [60.0, 60.0, 60.01])))
    assert hardly.lead.low > 0
    assert "95% interval 0.0 to 0.0; more seeds may choose another" in str(hardly)
    assert "one seed cannot show" in str(SearchResult((cell(0.1, 1, [60]), cell(0.2, 1, [50]))))
    assert SearchResult((cell(0.1, 1, [], failed=3),)).best is None


def test_the_winner_is_trained_on_all_training_images():
    assert FOUND.config.validation is None
    assert (
        command(FOUND) == "bnt run --method er --stream seq-cifar10 --seed 0 --lr 0.1 --memory 200"
    )


def test_two_knobs_are_drawn_as_a_heat_map_and_listed_best_first():
    figure = heat_map(FOUND)
    first = figure.rows[0]
    assert (first["lr"], first["memory"], first["acc"]) == ("0.01", "200", 41.0)
    rows = table(FOUND).rows
    assert [row[0].text for row in rows] == ["0.1", "0.01", "0.01", "0.1"]
    assert [row[2].bold for row in rows] == [True, False, False, False]
    assert rows[-1][-1].text == "2"  # failed
    assert heat_map(SearchResult((SearchCell({"lr": 1.0}, FOUND.cells[0].records),))) is None
    scattered = SearchResult(tuple(cell(number / 10, number, [50]) for number in range(1, 6)))
    assert heat_map(scattered) is None, "draws from two ranges would make a diagonal"


def test_text_of_a_users_is_escaped_on_the_page():
    hostile = SearchResult((SearchCell({"method": HOSTILE, "lr": 0.1}, FOUND.cells[0].records),))
    assert HOSTILE not in section(hostile, HOSTILE).content


def test_a_search_from_python_trains_cuts_of_the_training_images(one_process, tmp_path):
    found = search(
        Config(method="sgd", **TINY), {"lr": [0.01, 0.1]}, seeds=1, shared=Shared(out=tmp_path)
    )
    assert not any(cell.failed for cell in found.cells)
    data = found.cells[0].records[0].data
    assert data.images == {"train": 220, "test": 20}  # of 24 a class, two are held out
    assert found.config.validation is None
    assert found.config.lr in (0.01, 0.1)


def test_a_failed_run_is_counted_in_its_cell():
    planned = plan_search(Config(), {"lr": [0.1, 0.2]}, seeds=2)
    runs = planned.runs
    results = [
        a_run(lr=0.1),
        Failure(runs[1], RunError("no")),
        a_run(seed=1, lr=0.1),
        a_run(seed=1, lr=0.2),
    ]
    found = planned.result(results)
    assert [cell.failed for cell in found.cells] == [0, 1]
    assert found.best.knobs == {"lr": 0.1}


@pytest.mark.journey
def test_a_sweep_from_the_command_line_ends_with_the_winners_command(one_process, tmp_path):
    flags = ["sweep", "--grid", "lr=0.01,0.1", "memory=20,30", "--seeds", "1", "--method", "er"]
    done = bnt(*flags, *DIGITS, "--workers", "1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    cells = [tuple(cell["knobs"].values()) for cell in found["cells"]]
    assert cells == [(0.01, 20), (0.01, 30), (0.1, 20), (0.1, 30)]
    assert tuple(found["best"].values()) in cells
    assert found["command"].startswith("bnt run --method er --stream seq-digits --seed 0")
    assert "--validation" not in found["command"]
    page = (tmp_path / "runs" / "sweep" / "report.html").read_text()
    assert "bnt sweep --grid lr=0.01,0.1 memory=20,30 --seeds 1" in page
    assert (tmp_path / "runs" / "sweep" / "figures" / "search.svg").exists()
    assert not (tmp_path / "runs" / "report.html").exists()  # which is a study's
    again = bnt(*flags, *DIGITS, "--workers", "1", cwd=tmp_path)
    assert again.stderr.count("already there") == 4
    assert "lr \\ memory" in again.stdout
    late = bnt(*flags, *DIGITS, "--save", cwd=tmp_path)
    refused(late, "finished without saving its network: train it again (--force)", code=1)
    forced = bnt(*flags, *DIGITS, "--save", "--log", "csv", "--force", cwd=tmp_path)
    assert forced.returncode == 0, forced.stderr
    for name in ("model.safetensors", "log.csv"):
        assert len(list(tmp_path.glob(f"runs/*/{name}"))) == 4


@pytest.mark.journey
def test_a_sweep_that_cannot_be_understood_is_a_clear_line(tmp_path):
    refused(bnt("sweep", cwd=tmp_path), "sweep needs --grid or --random, one of them")
    logged = bnt("sweep", "--grid", "lr=0.1", "--log", "nosuch", *DIGITS, cwd=tmp_path)
    refused(logged, "unknown logger 'nosuch': there are")
    assert len(logged.stderr.splitlines()) == 1
    many = bnt("sweep", "--random", "lr=0.1,0.2", cwd=tmp_path)
    refused(many, "--random lr=0.1,0.2: begin with the number of draws")
