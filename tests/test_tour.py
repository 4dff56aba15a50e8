"""The tour, a notebook for newcomers, runs from top to bottom."""

import json
import re
from pathlib import Path

import pytest

from helpers.pages import links

pytestmark = pytest.mark.journey

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"
SECONDS = 300
"""After which a cell counts as stuck; the whole takes some two minutes."""


def test_the_tour_is_stored_without_outputs_and_its_links_lead_somewhere():
    cells = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    pages = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    addresses = [address for page in pages for address in links(page)]
    assert len(addresses) >= 5
    for address in addresses:
        assert address.startswith("https://") or (TOUR.parent / address).exists(), address


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tour_runs_in_minutes_and_shows_what_its_text_says(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    notebook = nbformat.read(TOUR, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=SECONDS, resources=where).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    printed = "".join(out["text"] for out in outputs if out["output_type"] == "stream")

    acc = {name: float(value) for name, value in re.findall(r"^(\S+): ACC ([\d.]+)", printed, re.M)}
    assert acc["ER-BNT"] > acc["ER"]
    assert len([out for out in outputs if "image/png" in out.get("data", {})]) == 3
    assert re.findall(r"^(\S+): BatchNorm statistics", printed, re.M) == ["ER", "ER-BNT"]
    learned = dict(re.findall(r"^(\w+) +\S+ -> (\d+)%$", printed, re.M))
    assert list(learned) == ["Trouser", "Sandal", "Bag", "Dress"]
    assert min(map(int, learned.values())) > 50
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"}
