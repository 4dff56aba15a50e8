"""The root of the command line, and what its commands share about flags."""

import difflib
import re
import sys
from collections.abc import Collection, Sequence
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, Group, MissingArgumentError, Parameter, Token
from cyclopts.help import HelpPanel
from cyclopts.help.formatters import DefaultFormatter
from cyclopts.validators import Number
from rich.console import Console, ConsoleOptions

from bntricks.errors import UserError
from bntricks.model.options import NewModel
from bntricks.options import Options
from bntricks.runs.config import Config
from bntricks.runs.request import FolderOptions, Request

PANELS = (
    *("What is learned", "Data", "Training", "New model", "Network", "Trained network"),
    *("Another protocol than the study's own", "Output", "Where it is computed"),
)
"""Titles of the panels of options in the help of commands, in order."""
RARE = ", rarely needed"


@cache
def panel(title: str, *, rare: bool = False) -> Parameter:
    """Put an option into this panel of the help, or into one that `--help-all` shows."""
    return Parameter(group=Group(title + RARE * rare, sort_key=(rare, PANELS.index(title))))


def _shown_default(default: Any) -> str | None:
    """Return a default for the help; empty for switches that are off and empty lists."""
    return None if default in (None, ()) or default is False else str(default)


class _Help(DefaultFormatter):
    """The panels of a command, those of options that are rarely needed only on demand."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if not str(panel.title).endswith(RARE) or EVERYTHING in sys.argv:
            super().__call__(console, options, panel)


EVERYTHING = "--help-all"
Described = TypeVar("Described", bound=Options)
app = App(
    name="bnt",
    help="BatchNorm in class-incremental learning: train, compare and take apart BN Tricks.",
    help_format="markdown",
    help_flags=("--help", "-h", EVERYTHING),
    help_formatter=_Help(),
    group_parameters=Group.create_default_parameters("Options"),
    default_parameter=Parameter(show_default=_shown_default, negative=()),
)
app["--help"].help = "Show this, or what a command takes; --help-all shows rare options too."
RARELY = "What is rarely needed is not shown here: `--help-all` shows it."
LONG = ("run", "learn", "study", "sweep")
"""Commands whose help ends in that line."""
COMMANDS = {
    "Start": ("demo", "methods", "streams", "norms"),
    "Train": ("run", "resume", "study", "sweep", "status", "learn"),
    "Look": ("report", "compare", "explore"),
    "Deploy": ("predict", "export"),
    "Keep": ("history", "rollback", "accept", "rename-class", "remove-class"),
    "Check": ("diagnose", "recalibrate", "check"),
    "Everywhere": ("--help", "--version"),
}
"""Every command, in the groups and the order of the help."""


def sort_commands() -> None:
    """Sort the commands, once they are registered, into their groups."""
    for rank, (title, names) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=rank)
        for place, name in enumerate(names):
            app[name].group, app[name].sort_key = group, place
    for name in LONG:
        app[name].help_epilogue = RARELY


class In:
    """Panels of the help, for parameters of commands."""

    learned, training = map(panel, ("What is learned", "Training"))
    output, computed = map(panel, ("Output", "Where it is computed"))
    rare_training, rare_output = panel("Training", rare=True), panel("Output", rare=True)
    new_model, trained = panel("New model", rare=True), panel("Trained network")
    rare_computed = panel("Where it is computed", rare=True)
    other_protocol = panel("Another protocol than the study's own", rare=True)


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


def needed(error: MissingArgumentError) -> str:
    """Say what a command needs, with its first example."""
    [name], missing = error.command_chain or (), error.argument
    required = [each for each in app[name].assemble_argument_collection() if each.required]
    wanted = [each.name for each in required if each.show]
    if missing is not None and error.root_input_tokens != [name]:
        wanted = [missing.name]
    return f"{name} needs {' and '.join(wanted)}; for example: {example(name)}"


def example(command: str) -> str:
    """Return the first example in the help of a command."""
    found = re.search(r"^ *- `(.+?)`", app[command].help, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{command} has no example"
    return " ".join(found[1].split())


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


def declare_flags(options: type[Described]) -> type[Described]:
    """Let the parser know what the fields say of their flags, as their modules do without it."""
    for name, field in options.model_fields.items():
        role = options.role(name)
        own = role.flag
        if title := role.panel or _declared_by(options, name).shown_in:
            shown = panel(title, rare=role.rare)
            field.metadata.insert(0, shown)  # before its own Parameter, which may differ
        if not own:
            field.metadata.append(Parameter(parse=False))
        elif isinstance(own, str):
            field.metadata.append(Parameter(name=flag(own)))
        elif field.annotation == tuple[str, ...]:
            field.metadata.append(Parameter(consume_multiple=True))
    return options


def _declared_by(options: type[Options], name: str) -> type[Options]:
    return next(each for each in options.__mro__ if name in get_annotations(each))


for _options in (Config, FolderOptions, Request, NewModel):
    declare_flags(_options)
