"""A record checks itself wherever it is read."""

import json
import random
from pathlib import Path

import pytest

from bntricks.errors import UserError
from bntricks.runs.record import Record, file as records
from helpers.records import a_run

pytestmark = pytest.mark.fault

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture
def saved(tmp_path):
    records.save(a_run(), tmp_path)
    return tmp_path / records.NAME


def test_what_is_saved_is_read_again(saved):
    assert records.read(saved).to_json() == a_run().to_json()


@pytest.mark.parametrize("seed", range(10))
def test_a_flipped_bit_changes_nothing_or_is_refused(saved, seed):
    content, generator = saved.read_bytes(), random.Random(seed)
    before = records.read(saved).to_json()
    refusals, warnings = [], []
    for _ in range(200):
        flipped = bytearray(content)
        flipped[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        saved.write_bytes(flipped)
        try:
            record = records.read(saved)
        except UserError as error:
            refusals.append(str(error))
            assert records.load(saved.parent, warnings.append) is None
        else:
            assert record.to_json() == before  # white space, say
            assert records.load(saved.parent, warnings.append) == record
    assert len(refusals) > 100
    assert len(warnings) == len(refusals)
    assert all(str(saved) in text and "\n" not in text for text in refusals + warnings)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(acc=99.0),
        lambda values: values.update(steps=7),
        lambda values: values["config"].update(epochs=3),
        lambda values: values["data"].update(cut_down=not values["data"]["cut_down"]),
        lambda values: values.update(versions={}),
    ],
)
def test_an_edited_record_is_refused(saved, change):
    values = json.loads(saved.read_bytes())
    change(values)
    saved.write_text(json.dumps(values))
    with pytest.raises(UserError, match="checksum"):
        records.read(saved)


@pytest.mark.parametrize(
    "text", ['{"accuracy": [[1]]}', "[]", "{", "null", "[" * 10**5, '{"a": NaN}']
)
def test_what_is_no_record_is_refused_in_a_line(saved, text):
    saved.write_text(text)
    with pytest.raises(UserError, match="is not a valid run record") as refused:
        records.read(saved)
    assert "\n" not in str(refused.value)


def test_records_of_earlier_versions_are_read_and_held_to_their_matrix(tmp_path):
    path = next(RESULTS.glob("*/record.json"))
    values = json.loads(path.read_bytes())
    assert "checksum" not in values
    assert records.read(path).acc == values["acc"]
    assert records.read(path).distinct is None
    for change in ({"acc": 99.0}, {"unknown": 1}, {"seed": 99}):
        with pytest.raises(ValueError, match=r"matrix|[Ee]xtra|configuration"):
            Record.from_json({**values, **change})


def test_what_is_no_object_of_metrics_is_refused(saved):
    values = json.loads(saved.read_bytes())
    del values["checksum"]
    with pytest.raises(ValueError, match="task_il is not a JSON object"):
        Record.from_json({**values, "task_il": ["acc"]})


def test_every_record_in_the_docs_is_sound():
    paths = list(RESULTS.glob("*/record.json"))
    assert len(paths) >= 60
    for path in paths:
        record = records.read(path)
        assert record.config.identity(record.data.fingerprint) == path.parent.name
