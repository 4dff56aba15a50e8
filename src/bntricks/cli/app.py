"""The root of the command line, and what its commands share about flags."""

import difflib
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter, Token
from cyclopts.validators import Number

from bntricks.errors import UserError
from bntricks.model.options import NewModel
from bntricks.options import Options
from bntricks.runs.config import Config
from bntricks.runs.request import FolderOptions, Request


def _shown_default(default: Any) -> str | None:
    """Return a default for the help; empty for switches that are off and empty lists."""
    return None if default in (None, ()) or default is False else str(default)


app = App(
    name="bnt",
    help="BatchNorm in class-incremental learning: train, compare and take apart BN Tricks.\n\n"
    "Start with `bnt demo`, then `bnt methods` and `bnt streams`, then `bnt run`.",
    help_format="markdown",
    default_parameter=Parameter(show_default=_shown_default, negative=()),
)


Json = bool
Switch = bool


def whole(**limits: int) -> Parameter:
    """Validate a whole number within these limits; the parser itself would round."""

    def convert(kind: Any, tokens: Sequence[Token]) -> int:
        if re.fullmatch(r"[+-]?\d+", tokens[0].value) is None:
            raise ValueError(f'"{tokens[0].value}" is not a whole number')
        return int(tokens[0].value)

    return Parameter(validator=Number(**limits), converter=convert)


Count = Annotated[int, whole(gte=1)]
Seeds = Annotated[int, whole(gte=1, lte=10_000)]
Threads = Annotated[
    int,
    whole(gte=1, lte=1024),
    Parameter(help="CPU threads. Different counts give different bits."),
]
Device = Annotated[str, Parameter(help="Where to compute: cpu, cuda, cuda:N or mps.")]
Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
Imports = Annotated[
    tuple[str, ...],
    Parameter(
        name="--import",
        help="A Python file or module of yours that registers methods, streams, networks or norms; "
        "it is executed. May be given several times.",
    ),
]
Paths = tuple[Path, ...]


def import_all(names: Imports) -> None:
    """Import the user's own code, before anything is looked up by name."""
    if names:
        from bntricks.plugins.imports import import_code

        for name in names:
            import_code(name)


def flag(option: str) -> str:
    """Return an option's flag on the command line."""
    return f"--{option.replace('_', '-')}"


ELSEWHERE = {
    "batch": "batch-size bs train-batch-size train-mb-size",
    "class-order": "permute-classes shuffle shuffle-classes",
    "classes-per-task": "n-tasks num-tasks n-experiences",
    "data": "data-dir data-path data-root root base-path",
    "device": "cuda gpu gpus gpu-id",
    "epochs": "n-epochs num-epochs nepochs train-epochs",
    "first": "init-cls base-classes nc-first-task",
    "from": "checkpoint ckpt init-from load loadcheck pretrained start weights",
    "log": "wandb logger",
    "lr": "learning-rate",
    "memory": "buffer buffer-size mem-size memory-size num-exemplars",
    "memory-batch": "batch-size-mem minibatch-size replay-batch-size",
    "memory-per-class": "exemplars-per-class num-exemplars-per-class",
    "method": "algorithm approach model model-name strategy",
    "net": "arch architecture backbone convnet convnet-type model network",
    "optimiser": "opt optim optimizer",
    "out": "log-dir output output-dir results-dir results-path save-dir",
    "save": "save-model save-models savecheck",
    "schedule": "lr-scheduler scheduler",
    "seeds": "n-runs n-seeds num-seeds",
    "sgd-momentum": "optim-mom",
    "stream": "benchmark data-set dataset scenario",
    "weight-decay": "optim-wd wd",
}
"""What other libraries call an option, by its name here."""


def refuse_misspelt(hyper: Collection[str], command: str) -> None:
    """Refuse a flag that is neither the command's nor a hyper-parameter of the method."""
    for name in hyper:
        if close := closest_flag(flag(name), command):
            raise UserError(f"unknown flag {flag(name)}: {close}")


def closest_flag(given: str, command: str) -> str | None:
    """Word which flag of a command was probably meant, by its name or by that of other
    libraries."""
    arguments = app[command].assemble_argument_collection()
    named = {name for argument in arguments if argument.parse for name in argument.names}
    flags = {name for name in named if name.startswith("--")}
    name = given.lower().replace("_", "-").removeprefix("--")
    if given in flags or flag(name) in flags:
        return None
    same = [flag(own) for own, others in ELSEWHERE.items() if name in others.split()]
    if here := " or ".join(own for own in same if own in flags):
        return f"here it is {here}"
    close = difflib.get_close_matches(given, flags, n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else None


def _declare_flags(options: type[Options]) -> None:
    """Let the parser know what the fields say of their flags, as their modules do without it."""
    for name, field in options.model_fields.items():
        own = options.role(name).flag
        if not own:
            field.metadata.append(Parameter(parse=False))
        elif isinstance(own, str):
            field.metadata.append(Parameter(name=flag(own)))
        elif field.annotation == tuple[str, ...]:
            field.metadata.append(Parameter(consume_multiple=True))


for _options in (Config, FolderOptions, Request, NewModel):
    _declare_flags(_options)
