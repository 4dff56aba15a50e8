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
    hyper, imports = (knobs.pop(key) for key in ("hyper", "imports"))
    always = {key: knobs.pop(key) for key in ("method", "stream", "seed")}
    changed = {key: value for key, value in knobs.items() if value != default[key]}
    own = {"import": list(imports)}
    parts = (own, always, changed, hyper)
    return [word for part in parts for each in part.items() for word in words_of(*each)]


def caveat(record: Record) -> str:
    """Say what the command lacks: a record does not keep the place of its images."""
    data = record.data
    if not data.cut_down and data.official_images is not None:
        return ""
    images = f"{data.images['train']} training images with fingerprint {data.fingerprint}"
    return f"Give --data if the images lie in a folder of yours; these were {images}."


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
