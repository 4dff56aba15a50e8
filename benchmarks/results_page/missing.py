"""What the page wants to say something about, and the commands for what is not there yet."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from bntricks.paper import ScaleName, load_study
from bntricks.report.commands import run_command
from bntricks.report.overview import counted
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.sweeps.plan import plan
from results_page.evidence import has_protocol
from results_page.lengths import COMPARED

ER = ("er", "er-balance-joint-train", "er-bnt-no-simulator", "er-bnt-imbalance-tracker", "er-bnt")
ICARL_PARTS = ("icarl-concat", "icarl-bnt-no-simulator", "icarl-bnt-imbalance-tracker")
ICARL = ("icarl", "icarl-bnt")
CIFAR10 = ("seq-cifar10",)
WIDTH = 90
LISTED = 20
"""More kinds of missing runs than this are not named; the command finds them by itself."""

TEXT = """## Not run yet

The runs that this page still needs, from what matters most to what takes longest. DIR is a folder
with the complete data, or, for `lite`, with the cut-down data of the runs that are there.
A command trains only what is missing; then `python benchmarks/write_results.py` writes the page
again.
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Some runs of a study, and what they are for."""

    purpose: str
    study: str
    scale: ScaleName
    seeds: int
    methods: tuple[str, ...] = ()
    """Of the study's [default: all]."""
    streams: tuple[str, ...] = CIFAR10
    change: tuple[tuple[str, int | bool], ...] = ()
    """Options that no variant of the study has; such runs are trained one by one."""

    def configs(self) -> list[Config]:
        study = load_study(self.study)
        own = plan(study, self.scale, seeds=self.seeds, methods=self.methods, streams=self.streams)
        return [config.model_copy(update=dict(self.change)) for config in own]

    def commands(self, absent: Sequence[Config]) -> list[str]:
        """What makes the runs that are absent."""
        if self.change:
            first = {config.method: config for config in reversed(absent)}
            return [_run(config, absent) for config in reversed(first.values())]
        methods = dict.fromkeys(config.method for config in self.configs() if config in absent)
        words = ["bnt", "study", self.study, "--scale", self.scale, "--streams", *self.streams]
        words += ["--seeds", str(self.seeds)]
        words += ["--methods", *methods] if self.methods else []
        return [_wrapped(shlex.join(words))]

    def has(self, record: Record, config: Config) -> bool:
        """Whether this record is that run, with all that the study's claims read."""
        probed = load_study(self.study).probe != "statistics" or record.biased_phi is not None
        return probed and has_protocol(record, config.model_dump())


WANTED = (
    Wanted("The pilot experiments", "pilot", "medium", 4),
    Wanted("The ablation of ER", "ablation", "medium", 4, ER),
    Wanted(
        "Other explanations of ER-BNT's gain",
        "control",
        "medium",
        3,
        ("er", "er-bnt", "er-recalibrate"),
    ),
    Wanted("BN Tricks on DER++", "main", "medium", 3, ("der++", "der++-bnt")),
    Wanted("BN Tricks on iCaRL", "main", "medium", 3, ICARL),
    Wanted(
        "The paper's 50 epochs: ER and ER-Cur+Buf",
        "pilot",
        "medium",
        1,
        COMPARED[:2],
        change=(("epochs", 50),),
    ),
    Wanted("ER-BNT for as long", "ablation", "medium", 1, COMPARED[2:], change=(("epochs", 50),)),
    Wanted(
        "ER-Cur+Prev for as long, to see whether its BWT turns positive",
        "pilot",
        "medium",
        1,
        ("er-cur+prev",),
        change=(("epochs", 50),),
    ),
    Wanted("The ablation of iCaRL", "ablation", "medium", 3, ICARL_PARTS),
    Wanted("iCaRL with the published code's mistakes", "control", "medium", 3, ICARL[:1]),
    Wanted("The other methods", "main", "medium", 3, ("sgd", "joint", "lwf", "a-gem", "fdr")),
    Wanted("GEM and GSS, too slow for `medium`", "main", "lite", 3, ("gem", "gss")),
    Wanted("Other normalisations, in a single pass", "norms-online", "medium", 5),
    Wanted("Other normalisations, over many epochs", "norms", "lite", 3),
    Wanted("Corrections of the head", "bias", "lite", 3),
    Wanted("Which batches φ follows", "trackers", "lite", 3),
    Wanted("Biased statistics", "statistics", "medium", 4),
    Wanted("The other streams", "main", "medium", 3, streams=("seq-cifar100", "seq-tiny-imagenet")),
    Wanted("Sizes of the memory", "buffers", "medium", 3, streams=("seq-cifar100",)),
    Wanted(
        "Twenty tasks",
        "long",
        "medium",
        3,
        streams=("seq-cifar100-20", "seq-tiny-imagenet-20"),
    ),
)


def missing(records: Sequence[Record]) -> list[str]:
    """The section: each part that lacks runs, and how to make them."""
    by_run: dict[tuple[str, str, int], list[Record]] = {}
    for record in records:
        by_run.setdefault((record.method, record.stream, record.seed), []).append(record)
    lines = []
    for part in WANTED:
        wanted = part.configs()
        absent = [
            config
            for config in wanted
            if not any(
                part.has(record, config)
                for record in by_run.get((config.method, config.stream, config.seed), ())
            )
        ]
        if absent:
            lines += [_heading(part, absent, len(wanted)), "", *part.commands(absent), ""]
    return [TEXT, *lines] if lines else []


def _heading(part: Wanted, absent: Sequence[Config], wanted: int) -> str:
    head = f"**{part.purpose}**: {len(absent)} of {counted(wanted, 'run')} missing"
    seeds: dict[str, list[str]] = {}
    for config in absent:
        seeds.setdefault(_label(part, config), []).append(str(config.seed))
    if len(absent) == wanted or len(seeds) > LISTED:
        return f"{head}."
    listed = "; ".join(
        f"{label} (seed{'s' * (len(own) > 1)} {', '.join(own)})" for label, own in seeds.items()
    )
    return f"{head}: {listed}."


def _label(part: Wanted, config: Config) -> str:
    """The method, and what its variant changes."""
    plain = {**Config().model_dump(), **load_study(part.study).scale[part.scale].overrides}
    changed = [
        f"{key} {value}".replace("_", " ").removesuffix(" True")
        for key, value in config.model_dump(exclude={"method", "hyper", "stream", "seed"}).items()
        if value != plain[key]
    ]
    return ", ".join([config.method, *changed])


def _run(config: Config, absent: Sequence[Config]) -> str:
    """The command for one run, and the other seeds it is to be repeated with."""
    others = [str(c.seed) for c in absent if c.method == config.method and c.seed != config.seed]
    also = f"  # and with --seed {', '.join(others)}" if others else ""
    words = run_command(config).split()
    # The paper's epochs are the default, which a command for another length had better say.
    words += [] if "--epochs" in words else ["--epochs", str(config.epochs)]
    return _wrapped(shlex.join(words)) + also


def _wrapped(command: str) -> str:
    """The command in lines that keep each flag with its values."""
    lines = [""]
    for flag in f"{command} --data DIR --out docs/results".split(" --"):
        part = f"{'--' if lines[0] else ''}{flag}"
        if len(lines[-1]) + len(part) > WIDTH:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".lstrip()
    return "    " + " \\\n        ".join(lines)
