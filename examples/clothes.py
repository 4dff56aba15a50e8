"""Folders of pictures of clothes for a first try of `bnt learn`, cut from the Fashion-MNIST images
that come with bntricks.

    python examples/clothes.py

writes into `clothes` the folders `first` (trousers, dresses, sandals) and `second` (pullovers,
bags), a hundred images a class, and `wardrobe`, three images a class that neither has.
"""

from pathlib import Path

from PIL import Image

from bntricks import open_stream
from bntricks.streams.sources.fashion import EMBEDDED

LESSONS = {"first": ("Trouser", "Dress", "Sandal"), "second": ("Pullover", "Bag")}


def write(folder: Path, name: str, images) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images, start=1):
        Image.fromarray(image[0].numpy()).save(folder / f"{name.lower()}-{number}.png")


out = Path("clothes")
stream = open_stream("seq-fashion", data=EMBEDDED)
for task in stream:
    for label in task.classes:
        name = stream.class_names[label]
        for lesson, names in LESSONS.items():
            if name in names:
                write(out / lesson / name, name, task.train.x[task.train.y == label][:100])
                write(out / "wardrobe", name, task.test.x[task.test.y == label][:3])
print(f"written to {out}")
