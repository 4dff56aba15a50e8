"""Small data sets in the official layouts, written where a test wants them."""

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

WNIDS = [f"n{10_000_000 + 7 * k}" for k in range(200)]


def records(labels, label_bytes, seed=0):
    """CIFAR records whose first pixel is the label and whose others are random."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 256, (len(labels), label_bytes + 3072), dtype=np.uint8)
    rows[:, label_bytes - 1] = labels
    rows[:, label_bytes] = labels
    if label_bytes == 2:
        rows[:, 0] = 19 - np.asarray(labels) // 5
    return rows.tobytes()


class Official:
    """Writes data sets as their publishers lay them out."""

    @staticmethod
    def cifar10(where: Path, train=3, test=1) -> Path:
        """train images a class in the first batch, one in each other; test images a class."""
        folder = where / "cifar-10-batches-bin"
        folder.mkdir(parents=True)
        mixed = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
        (folder / "batches.meta.txt").write_text("\n".join(f"kind{k}" for k in range(10)) + "\n\n")
        (folder / "data_batch_1.bin").write_bytes(records(mixed * train, 1, seed=1))
        for number in range(2, 6):
            raw = records(mixed, 1, seed=number)
            (folder / f"data_batch_{number}.bin").write_bytes(raw)
        (folder / "test_batch.bin").write_bytes(records(mixed * test, 1, seed=9))
        return folder

    @staticmethod
    def cifar100(where: Path, train=2, test=1) -> Path:
        folder = where / "cifar-100-binary"
        folder.mkdir(parents=True)
        down = list(range(99, -1, -1))
        (folder / "fine_label_names.txt").write_text("\n".join(f"fine{k}" for k in range(100)))
        (folder / "train.bin").write_bytes(records(down * train, 2, seed=1))
        (folder / "test.bin").write_bytes(records(down * test, 2, seed=2))
        return folder

    @staticmethod
    def tar(folder: Path, name: str) -> Path:
        """The folder as an archive beside it, members in another order than they are read."""
        path = folder.parent / name
        with tarfile.open(path, "w:gz") as tar:
            for file in sorted(folder.iterdir(), reverse=True):
                tar.add(file, f"{folder.name}/{file.name}")
        return path

    @staticmethod
    def jpeg(shade: int, mode="RGB", size=64) -> bytes:
        raw = io.BytesIO()
        colour = shade if mode == "L" else (shade, 255 - shade, 100)
        Image.new(mode, (size, size), colour).save(raw, "JPEG", quality=95)
        return raw.getvalue()

    @classmethod
    def tiny(cls, where: Path, train=2) -> Path:
        """train images a class, the second one grey; one validation image a class."""
        folder = where / "tiny-imagenet-200"
        images = folder / "val" / "images"
        images.mkdir(parents=True)
        (folder / "wnids.txt").write_text("\n".join(reversed(WNIDS)) + "\n")
        words = [f"{w}\tthing {k}, res {k}" for k, w in enumerate(WNIDS) if k != 5]
        (folder / "words.txt").write_text("\n".join(["n00000001\tentity", *words]))
        lines = []
        for k, wnid in enumerate(WNIDS):
            own = folder / "train" / wnid / "images"
            own.mkdir(parents=True)
            (own.parent / f"{wnid}_boxes.txt").write_text("a file that is no image")
            for number in range(train):
                mode = "L" if number == 1 else "RGB"
                (own / f"{wnid}_{number}.JPEG").write_bytes(cls.jpeg(k, mode))
            file = f"val_{(k * 71) % 200}.JPEG"
            (images / file).write_bytes(cls.jpeg(k))
            lines.append(f"{file}\t{wnid}\t0\t0\t62\t62")
        (folder / "val" / "val_annotations.txt").write_text("\n".join(sorted(lines)) + "\n")
        return folder

    @staticmethod
    def zip(folder: Path) -> Path:
        path = folder.parent / f"{folder.name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*"), reverse=True):
                archive.write(file, file.relative_to(folder.parent).as_posix())
        return path
