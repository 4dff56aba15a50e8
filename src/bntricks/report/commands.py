"""The command that makes a run again, from its record: every option that is not at its default."""

from typing import Any

from bntricks.files import command_line
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.request import Request


def run_command(config: Config) -> str:
    """Write the command of a run for a shell."""
    return command_line(["bnt", "run", *options(config)])


def command_of(config: Config, request: Request) -> str:
    """Write the command of a run of a sweep for a shell."""
    asked = request.model_dump(mode="json", exclude_defaults=True, exclude={"save"})
    words = [word for each in asked.items() for word in words_of(*each)]
    save = ["--save"] * (request.save is not None)
    return command_line(["bnt", "run", *options(config), *words, *save])


def options(config: Config) -> list[str]:
    """List the run's options as words on the command line."""
    default = Config().model_dump(mode="json")
    knobs = config.model_dump(mode="json")
    hyper, imports, start = (knobs.pop(key) for key in ("hyper", "imports", "start"))
    always = {key: knobs.pop(key) for key in ("method", "stream", "seed")}
    changed = {key: value for key, value in knobs.items() if value != default[key]}
    own = {"import": list(imports)} | ({"from": "MODEL"} if start else {})
    parts = (own, always, changed, hyper)
    return [word for part in parts for each in part.items() for word in words_of(*each)]


def caveat(record: Record) -> str:
    """Say what the command lacks: a record keeps neither images nor weights, nor their places."""
    data, start, lacks = record.data, record.config.start, []
    if start is not None:
        lacks.append(f"MODEL is the one whose weights have the SHA-256 {start}.")
    images = f"{data.images['train']} training images with fingerprint {data.fingerprint}"
    if data.given:
        lacks.append(f"The stream was made in Python, run(Config(…), stream=…), of {images}.")
    elif data.cut_down or data.official_images is None:
        lacks.append(f"Give --data if the images lie in a folder of yours; these were {images}.")
    return " ".join(lacks)


def words_of(key: str, value: Any) -> list[str]:
    """Write an option with its value as words on the command line."""
    name = f"--{key.replace('_', '-')}"
    if value is True:
        return [name]
    if isinstance(value, list):
        return [word for item in value for word in words_of(key, item)]
    text = str(value)
    # Apart from its flag, a value with a dash would be read as another flag.
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
