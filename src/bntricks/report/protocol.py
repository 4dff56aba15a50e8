"""Which runs may be compared: departures from the paper's protocol, which exclude its numbers; the
runs of a study, and how they differ from it; and the refusal to compare different protocols."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any

from bntricks.errors import UserError
from bntricks.paper import SCALES, PaperResult, ScaleName, Side, Study, load_reported, load_study
from bntricks.report.groups import RunGroup
from bntricks.runs.config import Config

DEFAULTS = Config().model_dump(mode="json")
PROTOCOL, MEMORY = Config.options(changes="protocol"), Config.options(of="memory")
MOST_VALUES = 6
"""Of one option that a sentence lists."""


def scale_name(group: RunGroup) -> str:
    """Name the scale of the paper's main study that a group was run at, apart from its length; a
    dash if it has none of them."""
    # Without a memory, data alone tells the scales of small networks apart.
    scales = SCALES[::-1] if group.cut_down else SCALES
    return next((scale for scale in scales if _at_scale(group, scale)), "–")


def _at_scale(group: RunGroup, scale: ScaleName) -> bool:
    wanted = dict(_scale_values(scale, group.stream))
    wanted["memory"] = wanted["memory"] or load_reported().memory.get(group.stream)
    if group.knobs["memory"] is None:
        del wanted["memory"]
    return all(group.knobs[key] == value for key, value in wanted.items())


@cache
def _scale_values(scale: ScaleName, stream: str) -> tuple[tuple[str, Any], ...]:
    main = load_study("main")
    of_size = {key for each in main.scale.values() for key in each.overrides} | {"memory"}
    values = {**DEFAULTS, **main.values(scale, stream)}
    return tuple((key, values[key]) for key in sorted(of_size - {"epochs"}))


def paper_numbers(group: RunGroup) -> PaperResult | None:
    """Find the paper's result of the same runs; None if the protocol differs."""
    if departures(group):
        return None
    return load_reported().find(group.method, group.stream, group.knobs["memory"])


def departures(*groups: RunGroup) -> list[str]:
    """List each option that differs from the paper's, with all values and the paper's."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for group in groups:
        for name, own, usual in _departures(group):
            values.setdefault((name, usual), {})[own] = None
    texts = [f"{name} {_either([*own])} (paper: {usual})" for (name, usual), own in values.items()]
    return [*texts, "cut-down data"] if any(group.cut_down for group in groups) else texts


def _departures(group: RunGroup) -> Iterator[tuple[str, str, str]]:
    """List our values and the paper's, by option."""
    reported = load_reported()
    for key in DEFAULTS:
        skipped = key == "memory" or (group.knobs["memory"] is None and key in MEMORY)
        if key in PROTOCOL and not skipped and group.knobs[key] != DEFAULTS[key]:
            yield key.replace("_", " "), _text(key, group.knobs[key]), _text(key, DEFAULTS[key])
    # A record has the defaults of its method, too.
    for name, usual in reported.hyper_of(group.method, group.stream).items():
        if (own := group.knobs["hyper"].get(name, usual)) != usual:
            yield name, str(own), str(usual)
    sizes = {each.memory for each in reported.entries() if each.stream == group.stream}
    if sizes and group.knobs["memory"] not in {None, *sizes}:
        yield "memory", str(group.knobs["memory"]), str(reported.memory[group.stream])


def protocol_notes(groups: Iterable[RunGroup]) -> list[str]:
    """Explain why rows lack the paper's numbers, if any do."""
    texts = departures(*groups)
    if not texts:
        return []
    return [f"Without the paper's numbers where the protocol differs: {', '.join(texts)}."]


def groups_of(
    study: Study, scale: ScaleName, side: Side, groups: Sequence[RunGroup]
) -> list[RunGroup]:
    """Find the runs of one side, by its method, its stream, and its variant of the study."""
    wanted = study.variable(scale, side)
    return [
        group
        for group in groups
        if (group.method, group.stream) == (side.method, side.stream)
        and all(_has(group, key, value) for key, value in wanted.items())
    ]


def _has(group: RunGroup, key: str, value: Any) -> bool:
    """Whether these runs have this value; runs without a memory have any size."""
    unused = group.knobs["memory"] is None and key in MEMORY
    return unused or bool(group.knobs[key] == value)


def changes(
    study: Study, scale: ScaleName, side: Side, group: RunGroup
) -> dict[str, tuple[Any, Any]]:
    """List options that decide results and differ from the study's: our value, and the study's."""
    stream = side.stream if side.stream in study.streams else study.streams[0]
    wanted = {**DEFAULTS, **study.values(scale, stream, side.variant)}
    wanted["memory"] = wanted["memory"] or load_reported().memory.get(stream)
    return {
        key: (own, wanted[key])
        for key, own in group.knobs.items()
        if key in wanted
        and key in PROTOCOL
        and own != wanted[key]
        # A run has the default of an option that its method or norm does not use.
        and not (key in Config.options(of=("method", "memory", "norm")) and own == DEFAULTS[key])
        and not (key == "memory" and wanted[key] is None)
    }


def changed_protocol(
    groups: Sequence[RunGroup], study: Study | None, scale: ScaleName | None
) -> list[str]:
    """Note how runs of a study differ from its protocol, if they do."""
    if study is None or scale is None or not study.streams:
        return []
    found: dict[str, None] = {}
    for group in groups:
        for variant in study.variants:
            side = Side(method=group.method, stream=group.stream, variant=variant.label)
            if groups_of(study, scale, side, [group]):
                for key, (own, wanted) in changes(study, scale, side, group).items():
                    found[f"{key.replace('_', ' ')} {own} (study: {wanted})"] = None
                break
    return [f"Not the study's own protocol: {', '.join(found)}."] if found else []


def is_smoke(study: Study, scale: ScaleName, side: Side, group: RunGroup) -> bool:
    """Whether a group's options are those of the smoke scale, in a report of another."""
    if "smoke" not in study.scale:
        return False
    smoke, wanted = (
        {**DEFAULTS, **study.values(each, side.stream, side.variant)} for each in ("smoke", scale)
    )
    telling = {key for key in smoke if smoke[key] != wanted[key]}
    telling -= MEMORY if group.knobs["memory"] is None else set()
    return bool(telling) and all(group.knobs[key] == smoke[key] for key in telling)


def check_one_protocol(study: Study, scale: ScaleName, sides: Sequence[Sequence[RunGroup]]) -> None:
    """Refuse sides of several groups, or that differ in more than methods and variants."""
    varied = {"hyper"} | {key for variant in study.variants for key in variant.values(scale)}
    for matching in sides:
        if len(matching) > 1:
            _refuse(matching[0], matching[1], matching[0].differences(matching[1]))
    for a, b in combinations([matching[0] for matching in sides if matching], 2):
        _refuse(a, b, a.differences(b) - varied)


def _refuse(a: RunGroup, b: RunGroup, keys: set[str]) -> None:
    """Refuse two groups that differ in any of these options."""
    differences = [f"{key} ({a.knobs[key]} and {b.knobs[key]})" for key in sorted(keys - {"data"})]
    if "data" in keys:
        differences.append("the images they learned")
    if differences:
        runs = " and ".join(dict.fromkeys(map(_first_run, (a, b))))
        raise UserError(
            f"mixed protocols: {runs} differ in {', '.join(differences)}; keep the runs of each "
            "protocol in a folder of their own"
        )


def _first_run(group: RunGroup) -> str:
    record = group.records[0]
    where = "" if record.path is None else f" ({record.path})"
    return f"{record.method} on {record.stream}, seed {record.seed}{where}"


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return Config.role(key).unset if value is None else str(value)


def _either(values: Sequence[str]) -> str:
    if len(values) > MOST_VALUES:
        values = [*values[: MOST_VALUES - 1], f"{len(values) - MOST_VALUES + 1} others"]
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last
