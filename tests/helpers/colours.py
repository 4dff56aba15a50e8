"""Little pictures of plain colours, which even a tiny network tells apart."""

import numpy as np
from PIL import Image

COLOURS = {
    "crimson": (200, 30, 40),
    "grün": (40, 170, 60),
    "navy": (20, 30, 130),
    "gelb 'n' \"rot\"": (230, 200, 40),
    "white [bold]": (235, 235, 240),
    "黒": (15, 15, 15),
}
FIRST, SECOND = tuple(COLOURS)[:3], tuple(COLOURS)[3:]
TINY = ("--image-size", "8", "--width", "4", "--blocks", "1", "--stages", "2", "--memory", "24")


def pictures(name, count=12, size=8, seed=0):
    """Noisy squares of one colour, uint8 [count, 3, size, size]."""
    random = np.random.default_rng([seed, list(COLOURS).index(name)])
    noise = random.normal(0, 25, (count, 3, size, size))
    return (np.array(COLOURS[name])[:, None, None] + noise).clip(0, 255).astype(np.uint8)


def write_folder(folder, names, count=12):
    for name in names:
        (folder / name).mkdir(parents=True)
        for number, x in enumerate(pictures(name, count, size=11)):
            Image.fromarray(x.transpose(1, 2, 0)).save(folder / name / f"{number:02}.jpg")
    return folder
