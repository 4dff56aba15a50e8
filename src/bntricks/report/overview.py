"""The opening of a report, in words: its question, its scale, its claims, and what is missing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from bntricks.errors import counted
from bntricks.paper import ScaleName, Side, Study
from bntricks.report.groups import RunGroup, by_stream, seeds_of, side_title, stream_title
from bntricks.report.protocol import departures, groups_of
from bntricks.report.verdicts import Judgement, Verdict

WORDS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "suggested": ("is suggested", "are suggested"),
    "undecided": ("is undecided", "are undecided"),
    "no difference": ("shows no difference", "show no difference"),
    "doubtful": ("is doubtful", "are doubtful"),
    "does not hold": ("does not hold", "do not hold"),
    "not judged": ("is not judged", "are not judged"),
    "not run": ("was not run", "were not run"),
}
"""Of one claim, and of several."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Each part is a sentence or more; `missing` is empty if nothing is."""

    asked: str
    scale: str
    claims: str
    missing: tuple[str, ...]


def overview(
    groups: Sequence[RunGroup],
    judgements: Sequence[Judgement],
    study: Study | None,
    scale: ScaleName | None,
) -> Overview:
    runs = sum(len(group.records) for group in groups)
    where = ", ".join(map(stream_title, by_stream(groups)))
    trained = f"{counted(runs, 'run')} in {counted(len(groups), 'row')}, on {where}."
    return Overview(
        asked=trained if study is None else f"{_question(study)} {trained}",
        scale=_scale(groups, scale),
        claims=_claims(judgements),
        missing=tuple(_missing(groups, study, scale)) if study and scale else (),
    )


def claims_title(study: Study) -> str:
    """Title the verdicts of a study."""
    if not study.artefacts:
        return "The study's claims"
    return "The paper's claims" if study.of_the_paper else "What the paper leaves open"


def moved(study: Study, groups: Sequence[RunGroup]) -> bool:
    """Whether a study was run on none of the streams that its claims are about."""
    return not any(group.stream in study.streams for group in groups)


def _question(study: Study) -> str:
    if study.of_the_paper:
        return f"{', '.join(study.artefacts)} of the paper: {study.title}."
    return study.title if study.title.endswith("?") else f"{study.title}."


def _scale(groups: Sequence[RunGroup], scale: ScaleName | None) -> str:
    size = f"{seeds_of(groups)} a row" + (f", at {scale} scale" if scale else "")
    texts = departures(*groups)
    if not texts:
        return f"{size}, under the paper's protocol."
    return f"{size}. Unlike the paper's protocol: {', '.join(texts)}."


def _claims(judgements: Sequence[Judgement]) -> str:
    counts = Counter(judged.verdict for judged in judgements)
    parts = [
        f"{counts[verdict]} {WORDS[verdict][counts[verdict] != 1]}"
        for verdict in get_args(Verdict)
        if counts[verdict]
    ]
    return f"Of {counted(len(judgements), 'claim')}, {', '.join(parts)}." if parts else ""


def _missing(groups: Sequence[RunGroup], study: Study, scale: ScaleName) -> list[str]:
    streams = by_stream(groups)
    if moved(study, groups):
        own, here = (", ".join(map(stream_title, each)) for each in (study.streams, streams))
        return [f"Verdicts: what is claimed is about {own}, and these runs are on {here}."]
    return [
        line
        for stream in study.streams
        for line in _missing_on(stream, streams.get(stream, []), study, scale)
    ]


def _missing_on(
    stream: str, groups: Sequence[RunGroup], study: Study, scale: ScaleName
) -> Iterator[str]:
    """Say what a stream lacks, except pairs that are left out for their cost."""
    title, wanted = stream_title(stream), study.scale[scale].seeds
    if not groups:
        yield f"{title}: no runs."
        return
    costly = {(pair.method, pair.stream) for pair in study.costly}
    sides = [
        Side(method=method, stream=stream, variant=variant.label)
        for variant in study.variants
        for method in study.methods_of(variant)
        if (method, stream) not in costly
    ]
    runs = {
        side_title(side): sum(len(each.records) for each in groups_of(study, scale, side, groups))
        for side in sides
    }
    if absent := [side for side, count in runs.items() if not count]:
        yield f"{title}: no runs of {'; '.join(absent)}."
    for count in sorted({count for count in runs.values() if 0 < count < wanted}):
        own = [side for side, runs_of_it in runs.items() if runs_of_it == count]
        rows = "every row" if len(own) == len(runs) > 1 else "; ".join(own)
        yield f"{title}: {count} of {wanted} seeds of {rows}."
