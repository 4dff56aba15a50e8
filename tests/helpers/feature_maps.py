"""Maps of features made up for tests."""

import base64
import io

import numpy as np
from PIL import Image

from bntricks.runs.record import file as records, maps
from bntricks.runs.record.maps import BiasedPhi, Map, Panel
from helpers.records import HOSTILE, a_run

NAMES = ("cat", HOSTILE, "owl", "=1+1")
LABELS = (0, 0, 1, 1, 2, 2, 3, 3)
R = [[90.0, None], [60.0, 80.0]]


def a_picture(shade):
    file = io.BytesIO()
    Image.new("L", (8, 8), shade).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def a_panel(name, predicted=LABELS, turn=0.0):
    corners = np.array([[0, 0], [9, 0], [0, 5], [9, 5]])[list(LABELS)]
    spread = corners + np.array([[0.0, 0.0], [1.0, 1.0]] * 4)
    x, y = (spread @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]).T
    return Panel(name=name, x=tuple(x.tolist()), y=tuple(y.tolist()), predicted=tuple(predicted))


MEASURED = BiasedPhi.of((60.0, 80.0), (20.0, 90.0), 55.0, 75.0)


def a_map(*panels, measured=None, **parts):
    pictures = tuple(a_picture(20 * i) for i in range(8))
    fields = {"task": 2, "class_names": NAMES, "labels": LABELS, "images": pictures, **parts}
    return Map(panels=panels, biased_phi=measured, **fields)


def of_statistics():
    return a_map(a_panel("balanced"), a_panel("biased", (3,) * 8, 1.0), measured=MEASURED)


def of_overlap(before=LABELS, after=LABELS):
    return a_map(a_panel("before", before), a_panel("after", after, 2.0))


def written(folder, by_probe, method="er-bnt", seed=0, **parts):
    """The folder of a run on disk, with the maps that these probes left beside its record."""
    run = folder / f"{method}-{seed}"
    run.mkdir(parents=True)
    records.save(a_run(method, seed, r=R, **parts), run)
    for probe, features in by_probe.items():
        maps.save(features, maps.path_in(run, probe))
    return run
