"""Which runs a study needs, and which of them are there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bntricks.errors import UserError
from bntricks.paper import ScaleName, Study
from bntricks.runs.config import Config

if TYPE_CHECKING:
    from bntricks.runs.record import Record
    from bntricks.runs.request import Request


def plan(
    study: Study,
    scale: ScaleName,
    *,
    seeds: int | None = None,
    methods: Sequence[str] = (),
    streams: Sequence[str] = (),
    everything: bool = False,
    device: str = "cpu",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> list[Config]:
    """List the runs of a study, perhaps only for some methods (also others than the study's), on
    other streams, on another device, or with other values of some options. All runs of a seed come
    before those of the next."""
    from bntricks.methods import find

    added = [name for name in methods if name not in study.methods]
    for name in added:
        find(name)
    study = study.model_copy(update={"methods": (*study.methods, *added)})
    varied = {key for variant in study.variants for key in variant.values(scale)}
    for key in sorted(varied & options.keys()):
        raise UserError(f"{study.name} compares values of this option: leave it out", option=key)
    check_claims(study, scale)
    configs = _on_streams(study, study.configs(scale, seeds=seeds, costly=everything), streams)
    chosen = [config for config in configs if not methods or config.method in methods]
    for name in sorted(set(added) - {config.method for config in chosen}):
        raise UserError(
            f"{study.name} runs each of its variants with methods of its own: it has no runs of "
            f"another, such as {name}"
        )
    if study.streams and not chosen:
        raise _nothing_left(study, methods, streams)
    return [
        Config.of(**(config.model_dump() | {"device": device} | dict(options))) for config in chosen
    ]


def _on_streams(study: Study, configs: Sequence[Config], streams: Sequence[str]) -> list[Config]:
    """List the runs on the study's own streams, and on others by the protocol of its first."""
    moved = [
        config.model_copy(update={"stream": stream})
        for stream in streams
        if stream not in study.streams
        for config in configs
        if config.stream == study.streams[0]
    ]
    own = [config for config in configs if not streams or config.stream in streams]
    return sorted([*own, *moved], key=lambda config: config.seed)


def _nothing_left(study: Study, methods: Sequence[str], streams: Sequence[str]) -> UserError:
    costly = [
        f"{pair.method} on {pair.stream}"
        for pair in study.costly
        if (not methods or pair.method in methods) and (not streams or pair.stream in streams)
    ]
    if not costly:
        return UserError(f"no runs are left: no variant of {study.name} is for these methods")
    return UserError(
        f"no runs are left: {study.name} leaves out {' and '.join(costly)} because of the training "
        "time; run that too",
        remedy="all",
    )


def check_claims(study: Study, scale: ScaleName) -> None:
    """Refuse claims about runs that a report would not recognise, because their records have
    another value of an option than the study."""
    from bntricks.runs.resolve import normalised

    for side in dict.fromkeys(side for claim in study.claims for _, side in claim.terms()):
        values = study.values(scale, side.stream, side.variant)
        asked = Config.of(**(values | {"method": side.method, "stream": side.stream}))
        try:
            used = normalised(asked)
        except UserError:  # which is for the run itself to say
            continue
        telling = set(Config.options(changes="protocol", of=(None, "network")))
        telling |= study.variable(scale, side).keys()
        telling -= Config.options(of="memory") if used.memory is None else set()
        for key in sorted(telling):
            wanted, own = getattr(asked, key), getattr(used, key)
            if own != wanted:
                same = f"with {key} {own}" if own is not None else f"without {key}"
                raise UserError(
                    f"{study.name}: a claim is about {side} with {key} {wanted}, which is the same "
                    f"run as {same}: write that, or leave the method out of the variant"
                )


def choose(study: Study, scale: ScaleName, records: Sequence[Record]) -> list[Record]:
    """The records of runs that the study plans at this scale, also with methods of the user's own,
    or on other streams if there are none on its own. If there are none, those of the only other
    scale that has some; or else all, which are of some other protocol."""
    added = {run.method for run in records if run.config.imports} - {*study.methods}
    study = study.model_copy(update={"methods": (*study.methods, *sorted(added))})
    elsewhere = {record.stream for record in records} - {*study.streams}
    for streams in (study.streams, tuple(elsewhere)):
        planned = {each: _planned(study, each, streams, records) for each in study.scale}
        there = {each: runs for each, runs in planned.items() if runs}
        if scale not in there and len(there) > 1:
            scales = " and ".join(f"{len(runs)} at {each}" for each, runs in there.items())
            raise UserError(
                f"none of these runs is of {study.name} at this scale: there are {scales}",
                option="scale",
                value=scale,
            )
        for runs in (there.get(scale), *there.values()):
            if runs:
                return _of_one_data(runs, scale)
    return list(records)


def _of_one_data(runs: Sequence[Record], scale: ScaleName) -> list[Record]:
    """Select, for each stream, the runs on the images that most of them learned; except at the lite
    scale, those on the complete data if there are any."""
    data = Counter((run.stream, run.data.cut_down, run.data.fingerprint) for run in runs)
    ranked = sorted(data, key=lambda each: (each[1] and scale != "lite", -data[each]))
    chosen: dict[str, str] = {}
    for stream, _, fingerprint in ranked:
        chosen.setdefault(stream, fingerprint)
    return [run for run in runs if run.data.fingerprint == chosen[run.stream]]


def _planned(
    study: Study, scale: ScaleName, streams: Sequence[str], records: Sequence[Record]
) -> list[Record]:
    """Select runs with a configuration of the study, of any seed and machine. A method of the
    user's own that is not imported counts as it is."""
    wanted: dict[tuple[str, str], list[Config]] = {}
    unknown = set()
    for config in _on_streams(study, study.configs(scale, seeds=1, costly=True), streams):
        kind = (config.method, config.stream)
        try:
            wanted.setdefault(kind, []).append(_as_recorded(config))
        except UserError:
            unknown.add(kind)
    free = Config.options(changes="computation") | {"seed", "imports"}
    plain = {name: getattr(Config(), name) for name in free}
    return [
        record
        for record in records
        if (kind := (record.method, record.stream)) in unknown
        or record.config.model_copy(update=plain) in wanted.get(kind, [])
    ]


def _as_recorded(config: Config) -> Config:
    """Return the configuration in a run's record, without files of the user's own."""
    from bntricks.runs.readings import recipe
    from bntricks.runs.resolve import normalised
    from bntricks.streams.registry import OPENERS, STREAMS

    OPENERS.find(config.stream)
    used = normalised(config)
    if used.memory is None and recipe(used).memory is not None:
        return used.model_copy(update={"memory": STREAMS[config.stream].memory})
    return used


def complete(configs: Sequence[Config], request: Request) -> list[Record] | None:
    """Return the records of these runs if all are there, on the complete official data, which need
    not be fetched then."""
    from bntricks.report.records import read_all
    from bntricks.streams.registry import STREAMS

    more = request.force or request.probe or request.save or request.readings
    if more or request.data or os.environ.get("BNT_DATA"):
        return None
    try:
        wanted = list(map(_as_recorded, configs))
        if any(STREAMS[config.stream].data != "download" for config in wanted):
            return None
        runs = [run for run in read_all(request.out) if not run.data.cut_down]
    except UserError:  # which is for the runs to say
        return None
    rows = [*runs, *(row for run in runs for row in run.rows()[1:])]
    found = [next((row for row in rows if row.config == config), None) for config in wanted]
    return [row for row in found if row] if all(found) else None
