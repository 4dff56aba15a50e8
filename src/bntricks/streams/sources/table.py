"""csv: a stream of the images that a CSV file lists, with a column of paths, relative to its
folder, and one of labels. A third column may say which are to train on and which to test on.
"""

import csv
import io
from pathlib import Path

from bntricks.errors import UserError
from bntricks.files import read_errors, regular_bytes, shown
from bntricks.streams.apply import HELD_OUT
from bntricks.streams.files.archive import Folder
from bntricks.streams.registry import GivenOptions, StreamInfo, stream
from bntricks.streams.sources.folder import ByClass, divided, of_files
from bntricks.streams.stream import Stream
from bntricks.streams.tasks import CLASSES_PER_TASK

COLUMNS = {
    "path": ("path", "file", "filename", "filepath", "image"),
    "label": ("label", "class", "target", "category"),
    "split": ("split", "subset"),
}
"""What a column may be called."""
SPLITS = ("train", "test")


@stream(
    "csv",
    summary="your own images: a CSV file with the columns path and label, and perhaps split",
    tasks=f"{CLASSES_PER_TASK} classes a task, or as listed",
    image_size=32,
    memory=500,
    data="given",
    applies=("held_out", "classes_per_task", "tasks"),
)
def images_in_table(info: StreamInfo, options: GivenOptions) -> Stream:
    rows = sorted(_rows(options.data), key=lambda row: row[1])
    labels = dict.fromkeys(label for _, label, _ in rows)
    by_use: dict[str, ByClass] = {use: {each: [] for each in labels} for use in ("", *SPLITS)}
    for name, label, use in rows:
        by_use[use][label].append(name)
    undivided, train, test = by_use.values()
    files = {label: [name for part in by_use.values() for name in part[label]] for label in labels}
    if not any(use for _, _, use in rows):
        train, test = divided(undivided, options.held_out)
    elif options.held_out != HELD_OUT:
        raise UserError("the table says which images are for testing", option="held_out")
    for label in labels:
        if not (train[label] and test[label]):
            raise UserError(
                f"class {shown(label)!r} in {shown(options.data)} needs an image to train on and "
                "another one to test on: add one, or leave out the class"
            )
    source, known_by = Folder(options.data.parent), [list(files.items()), list(test.items())]
    return of_files(info, options, source, files, train, test, known_by)


def _rows(table: Path) -> list[tuple[str, str, str]]:
    """Read path, label and split of each row; the split is empty if there is no such column."""
    with read_errors(table):
        content = regular_bytes(table)
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{shown(table)} is not CSV in UTF-8: {error}", option="data") from None
    head = [name.strip().lower() for name in lines[0]] if lines else []
    places = {
        column: next((head.index(name) for name in names if name in head), None)
        for column, names in COLUMNS.items()
    }
    path, label, split = places.values()
    if path is None or label is None:
        raise UserError(
            f"the first line of {shown(table)} does not name the columns: write path,label above "
            "the rows, and split if images are for testing",
            option="data",
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if not any(map(str.strip, line)):
            continue
        use = line[split].strip().lower() if split is not None and len(line) == len(head) else ""
        whole = len(line) == len(head) and line[path].strip() and line[label].strip()
        if not whole or (split is not None and use not in SPLITS):
            raise UserError(
                f"line {number} of {shown(table)} is not a path and a label"
                + (f", with {' or '.join(SPLITS)} as its split" if split is not None else "")
                + ": mend it, or leave it out",
                option="data",
            )
        rows.append((line[path].strip(), line[label].strip(), use))
    return rows
