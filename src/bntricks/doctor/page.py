"""The diagnosis as one self-contained HTML file, safe with any name of a group or layer."""

from html import escape
from pathlib import Path

from bntricks.doctor.charts import figures
from bntricks.doctor.diagnosis import Diagnosis
from bntricks.doctor.tables import accuracy_table, group_table, layer_table
from bntricks.files import commit, write_errors
from bntricks.report.page.html import Section, figure_html, page_html, table_html


def write_page(diagnosis: Diagnosis, path: Path, title: str, command: str | None) -> Path:
    drawn = {figure.name: figure_html(figure) for figure in figures(diagnosis)}
    accuracy = drawn["accuracy"] + table_html(accuracy_table(diagnosis), "accuracy-table")
    accuracy += drawn.get("gap", "")
    by_depth = drawn["distance"] + drawn.get("lean", "")
    sections = [
        Section("verdict", "Verdict", verdict_html(diagnosis)),
        Section("accuracy-section", "Accuracy", accuracy),
        Section("layers", "Layers", by_depth + table_html(layer_table(diagnosis), "layer-table")),
        *([Section("bias", "Answers", drawn["answers"])] if "answers" in drawn else []),
        Section("groups", "Groups", table_html(group_table(diagnosis), "group-table")),
    ]
    layers, groups = len(diagnosis.layers), len(diagnosis.groups)
    summary = f"{layers} BatchNorm layers, {groups} groups of classes."
    with write_errors(path):
        commit({path: page_html(title, summary, sections, command).encode()})
    return path


def verdict_html(diagnosis: Diagnosis) -> str:
    """Render the verdict, its evidence and the advice."""
    verdict = diagnosis.verdict
    points = "".join(f"<li>{escape(point)}</li>" for point in verdict.evidence)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in diagnosis.notes)
    warning = f"<p>{escape(diagnosis.warning)}</p>" if diagnosis.warning else ""
    return (
        f"{warning}<p><strong>{escape(verdict.headline)}</strong></p><ul>{points}</ul>"
        f"<p>{escape(verdict.advice)}</p>{notes}"
    )
