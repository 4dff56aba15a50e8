"""Two models beside each other: the numbers are those of each diagnosis, and names are text."""

import pytest
import torch

from bntricks import diagnose, recalibrate
from bntricks.doctor import mixed
from bntricks.doctor.charts import distances_of_each
from bntricks.doctor.page import side_by_side_html
from bntricks.doctor.tables import cost_table
from helpers.doctor_data import groups, network

HOSTILE = "<b>er</b>"


@pytest.fixture(scope="module")
def diagnoses():
    """The same weights with φ of the new classes alone, and with balanced φ."""
    net, data = network(), groups()
    with torch.no_grad():
        for _ in range(20):
            for x, _ in data["new"]:
                net(x)
    biased = diagnose(net, data)
    recalibrate(net, mixed(data))
    return {HOSTILE: biased, "balanced": diagnose(net, data)}


def test_the_table_has_what_balanced_statistics_would_change(diagnoses):
    table = cost_table(diagnoses)
    biased, balanced = table.rows
    difference = diagnoses[HOSTILE].balanced.old_difference
    column = table.columns.index("φ costs on old")
    assert biased[column].number == difference.points
    assert difference.interval in biased[column].text
    assert abs(balanced[column].number) < 5


def test_the_picture_has_every_layer_of_each_model(diagnoses):
    rows = distances_of_each(diagnoses).rows
    by_model = {name: [r["value"] for r in rows if r["measure"] == name] for name in diagnoses}
    assert by_model[HOSTILE] == [layer.distance for layer in diagnoses[HOSTILE].layers]
    assert max(by_model["balanced"]) < max(by_model[HOSTILE])


def test_the_page_s_part_has_both_verdicts_and_no_markup_of_a_name(diagnoses):
    html = side_by_side_html(diagnoses)
    assert "<b>" not in html
    assert html.count("&lt;b&gt;er&lt;/b&gt;") >= 2
    for diagnosis in diagnoses.values():
        assert diagnosis.verdict.headline in html
