"""A study: the runs that reproduce an artefact of the paper, at three scales, and its claims.

A run's configuration is the paper's, changed by the scale, by the scale's entry for the stream,
and by the variant, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from bntricks.errors import InvalidOptions
from bntricks.paper.claims import Claim, Side, Statement
from bntricks.runs.config import Config, parse

ScaleName = Literal["paper", "lite", "smoke"]
ProbeName = Literal["statistics", "overlap"]


def _known(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    if taken := overrides.keys() & {"method", "hyper", "stream", "seed"}:
        raise ValueError(f"{', '.join(sorted(taken))}: decided by the study, not by an override")
    try:
        Config(**overrides)
    except ValidationError as error:
        raise ValueError(str(InvalidOptions.of(error))) from None
    return overrides


Overrides = Annotated[Mapping[str, bool | int | float | str], AfterValidator(_known)]
"""Knobs of `Config` with other values than the paper's."""


class Scale(BaseModel):
    """How large a study is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: Annotated[int, Field(ge=1)]
    overrides: Overrides = Field(default_factory=dict)
    by_stream: Mapping[str, Overrides] = Field(default_factory=dict)


class Variant(BaseModel):
    """The same methods under other knobs. `at` has the values of a scale that needs its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = ""
    methods: tuple[str, ...] | None = None
    """Those it is run for [default: all of the study]."""
    overrides: Overrides = Field(default_factory=dict)
    at: Mapping[ScaleName, Overrides] = Field(default_factory=dict)

    def values(self, scale: ScaleName) -> dict[str, Any]:
        return {**self.overrides, **self.at.get(scale, {})}


class Pair(BaseModel):
    """A method on a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    stream: str


def _written_out(statements: Iterable[Any]) -> list[Claim]:
    return [c for s in statements for c in Statement.model_validate(s).claims()]


class Study(BaseModel):
    """Methods × streams × variants × seeds, and what the paper says about them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    artefacts: Annotated[tuple[str, ...], Field(min_length=1)]
    """Tables and figures of the paper that it reproduces."""
    methods: tuple[str, ...]
    streams: tuple[str, ...] = ()
    """None: the study trains nothing."""
    variants: tuple[Variant, ...] = (Variant(),)
    costly: tuple[Pair, ...] = ()
    """Pairs that the paper left out for their training time; run only when all is asked for."""
    probe: ProbeName | None = None
    """What looks at its runs when a task is over, for what a record alone does not show."""
    scale: Mapping[ScaleName, Scale] = Field(default_factory=dict)
    claims: Annotated[tuple[Claim, ...], BeforeValidator(_written_out)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if self.streams and len(self.scale) < 3:
            raise ValueError(f"{self.name}: a study with runs has all three scales")
        labels = [variant.label for variant in self.variants]
        if len(set(labels)) < len(labels):
            raise ValueError(f"{self.name}: two variants have one label")
        sides = [side for claim in self.claims for _, side in claim.terms()]
        pairs = {(side.method, side.stream) for side in sides}
        pairs |= {(pair.method, pair.stream) for pair in self.costly}
        for method, stream in pairs:
            if method not in self.methods or stream not in self.streams:
                raise ValueError(f"{self.name}: {method} on {stream} is not part of the study")
        for side in sides:
            if side.method not in self.methods_of(self.variant(side.variant)):
                raise ValueError(f"{self.name}: variant {side.variant!r} is not for {side.method}")
        self._check_told_apart()
        return self

    def _check_told_apart(self) -> None:
        """Runs are known by the knobs that variants turn, so none of these may be left open."""
        for scale, stream, variant in product(self.scale, self.streams, self.variants):
            side = Side(method="", stream=stream, variant=variant.label)
            for key, value in self.variable(scale, side).items():
                if value is None:
                    raise ValueError(f"{self.name}: a variant turns {key}, so all must set it")

    def variant(self, label: str) -> Variant:
        for variant in self.variants:
            if variant.label == label:
                return variant
        raise ValueError(f"{self.name} has no variant {label!r}")

    def methods_of(self, variant: Variant) -> tuple[str, ...]:
        return self.methods if variant.methods is None else variant.methods

    def values(self, scale: ScaleName, stream: str, variant: str = "") -> dict[str, Any]:
        """The knobs that are not the paper's, for this stream and variant at this scale."""
        at = self.scale[scale]
        own = self.variant(variant).values(scale)
        return {**at.overrides, **at.by_stream.get(stream, {}), **own}

    def variable(self, scale: ScaleName, side: Side) -> dict[str, Any]:
        """The values, on this side, of every knob that some variant of the study changes."""
        keys = {key for variant in self.variants for key in variant.values(scale)}
        config = {**Config().model_dump(), **self.values(scale, side.stream, side.variant)}
        return {key: config[key] for key in sorted(keys)}

    def configs(
        self, scale: ScaleName, *, seeds: int | None = None, costly: bool = False
    ) -> list[Config]:
        """Every run at this scale. All runs of a seed come before those of the next, so that what
        is there after an interruption can be compared."""
        if not self.streams:
            return []
        left_out = () if costly else self.costly
        return [
            parse({**self.values(scale, stream, variant.label), **pair.model_dump(), "seed": seed})
            for seed in range(self.scale[scale].seeds if seeds is None else seeds)
            for stream in self.streams
            for variant in self.variants
            for method in self.methods_of(variant)
            if (pair := Pair(method=method, stream=stream)) not in left_out
        ]
