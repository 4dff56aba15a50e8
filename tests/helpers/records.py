"""Records made up for tests."""

from bntricks.runs.config import Config
from bntricks.runs.record import Record, file as records

HOSTILE = "</script><b>&_%$[red]"


def a_run(method="er", seed=0, final=50.0, *, stream="seq-cifar10", r=None, **parts):
    """A record whose tasks all end at `final`. Knobs by name; other names replace its fields."""
    r = r or [[90.0, None], [final, final]]
    knobs = {key: parts.pop(key) for key in list(parts) if key in Config.model_fields}
    cut_down = parts.pop("cut_down", False)
    config = Config(**{"method": method, "stream": stream, "seed": seed, "memory": 500, **knobs})
    return Record.from_json(
        {
            "method": method,
            "stream": stream,
            "seed": config.seed,
            "accuracy": r,
            "config": config.model_dump(mode="json"),
            "data": {
                "fingerprint": parts.pop("fingerprint", "f" * 16),
                "cut_down": cut_down,
                "images": {"train": 200 if cut_down else 50_000, "test": 100},
                "official_images": {"train": 50_000, "test": 100},
            },
            "forwards_per_step": 2.0,
            "images_per_second": 1000.0,
            "versions": {"bntricks": "0.1.0"},
            **parts,
        }
    )


def runs(method, finals, **knobs):
    """A run for each final accuracy, with seeds from 0."""
    return [a_run(method, seed, final, **knobs) for seed, final in enumerate(finals)]


def written(folder, *saved):
    """These records on disk, each in a folder of its own."""
    for number, record in enumerate(saved):
        (folder / f"run{number}").mkdir(parents=True)
        records.save(record, folder / f"run{number}")
    return folder
