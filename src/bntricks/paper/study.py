"""A study: the runs that reproduce a table or figure of the paper, at four scales, and its claims.

A run's configuration is the paper's, changed by the scale, by the scale's entry for the stream, and
by the variant, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from bntricks.errors import InvalidOptions, UserError, did_you_mean
from bntricks.paper.claims import Claim, Side, Statement
from bntricks.runs.config import Config
from bntricks.runs.request import ProbeName

ScaleName = Literal["paper", "medium", "lite", "smoke"]
SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
"""From the largest to the smallest."""


def _check_overrides(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    if taken := overrides.keys() & Config.options(changes="subject"):
        raise ValueError(f"{', '.join(sorted(taken))}: decided by the study, not by an override")
    for name in sorted(overrides.keys() - Config.model_fields.keys()):
        raise ValueError(f"{name}: unknown run option{did_you_mean(name, Config.model_fields)}")
    try:
        Config(**overrides)
    except ValidationError as error:
        raise ValueError(str(InvalidOptions.of(error))) from None
    return overrides


Overrides = Annotated[Mapping[str, bool | int | float | str], AfterValidator(_check_overrides)]
"""Options of `Config` with values that differ from the paper's."""


class Scale(BaseModel):
    """The size at which a study is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: Annotated[int, Field(ge=1, le=10_000)]
    overrides: Overrides = Field(default_factory=dict)
    by_stream: Mapping[str, Overrides] = Field(default_factory=dict)


class Variant(BaseModel):
    """The same methods with other options; `at` has values for single scales."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = ""
    methods: tuple[str, ...] | None = None
    """The methods it is run for [default: all of the study]."""
    overrides: Overrides = Field(default_factory=dict)
    at: Mapping[ScaleName, Overrides] = Field(default_factory=dict)

    def values(self, scale: ScaleName) -> dict[str, Any]:
        return {**self.overrides, **self.at.get(scale, {})}


class Pair(BaseModel):
    """A method on a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    stream: str


def _expanded(statements: Iterable[Any]) -> list[Claim]:
    claims: list[Claim] = []
    for number, statement in enumerate(statements, start=1):
        try:
            claims.extend(Statement.model_validate(statement).claims())
        except ValidationError as error:
            raise ValueError(f"claim {number}: {explained(error, Statement)}") from None
    return claims


class Study(BaseModel):
    """Methods × streams × variants × seeds, and claims about them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    artefacts: tuple[str, ...] = ()
    """The tables and figures of the paper that it reproduces, if any."""
    methods: tuple[str, ...]
    streams: tuple[str, ...] = ()
    """Empty if the study trains nothing."""
    variants: tuple[Variant, ...] = (Variant(),)
    costly: tuple[Pair, ...] = ()
    """Pairs that the paper left out because of their training time; run only on request."""
    probe: ProbeName | None = None
    """The probe of its runs, for what a record alone does not show."""
    scale: Mapping[ScaleName, Scale] = Field(default_factory=dict)
    claims: Annotated[tuple[Claim, ...], BeforeValidator(_expanded)] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if self.streams and not self.scale:
            raise ValueError(f"{self.name}: a study with runs needs one of {', '.join(SCALES)}")
        for scale in self.scale.values():
            for name in sorted(scale.by_stream.keys() - {*self.streams}):
                near = did_you_mean(name, self.streams)
                raise ValueError(f"{self.name}: by_stream has {name}, no stream of it{near}")
        labels = [variant.label for variant in self.variants]
        if len(set(labels)) < len(labels):
            raise ValueError(f"{self.name}: two variants have the same label")
        sides = [side for claim in self.claims for _, side in claim.terms()]
        pairs = {(side.method, side.stream) for side in sides}
        pairs |= {(pair.method, pair.stream) for pair in self.costly}
        for method, stream in pairs:
            if method not in self.methods or stream not in self.streams:
                raise ValueError(f"{self.name}: {method} on {stream} is not part of the study")
        for side in sides:
            if side.method not in self.methods_of(self.variant(side.variant)):
                raise ValueError(f"{self.name}: variant {side.variant!r} is not for {side.method}")
        self._check_distinguishable()
        return self

    def _check_distinguishable(self) -> None:
        """Refuse variants that change options without a value: values distinguish runs."""
        for scale, stream, variant in product(self.scale, self.streams, self.variants):
            side = Side(method="", stream=stream, variant=variant.label)
            for key, value in self.variable(scale, side).items():
                if value is None and Config.role(key).of != "norm":  # of which None stays None
                    raise ValueError(f"{self.name}: a variant changes {key}, so all must set it")

    @property
    def of_the_paper(self) -> bool:
        """Whether it reproduces a table or a figure of the paper."""
        return any(artefact.startswith(("Table", "Figure")) for artefact in self.artefacts)

    def checked_scale(self, scale: ScaleName | None) -> ScaleName:
        """Check that the study has this scale; the default is `lite`, or else its largest."""
        if not self.scale:
            raise UserError(
                f"{self.name} trains nothing, so it has no scale and no claims to judge"
            )
        if scale is None:
            return min(self.scale, key=lambda each: (each != "lite", SCALES.index(each)))
        if scale not in self.scale:
            raise UserError(
                f"{self.name} has no such scale: it has {', '.join(self.scale)}",
                option="scale",
                value=scale,
            )
        return scale

    def variant(self, label: str) -> Variant:
        for variant in self.variants:
            if variant.label == label:
                return variant
        raise ValueError(f"{self.name} has no variant {label!r}")

    def methods_of(self, variant: Variant) -> tuple[str, ...]:
        return self.methods if variant.methods is None else variant.methods

    def values(self, scale: ScaleName, stream: str, variant: str = "") -> dict[str, Any]:
        """Return the options that differ from the paper's, for this stream, variant and scale."""
        base = self.scale[scale]
        own = self.variant(variant).values(scale)
        return {**base.overrides, **base.by_stream.get(stream, {}), **own}

    def variable(self, scale: ScaleName, side: Side) -> dict[str, Any]:
        """Return this side's values of all options that some variant of the study changes."""
        keys = {key for variant in self.variants for key in variant.values(scale)}
        config = {**Config().model_dump(), **self.values(scale, side.stream, side.variant)}
        return {key: config[key] for key in sorted(keys)}

    def configs(
        self, scale: ScaleName, *, seeds: int | None = None, costly: bool = False
    ) -> list[Config]:
        """List every run at this scale, seed by seed, so that a part of them can be compared."""
        if not self.streams:
            return []
        left_out = () if costly else self.costly
        return [
            Config.of(**self.values(scale, stream, variant.label), **pair.model_dump(), seed=seed)
            for seed in range(self.scale[scale].seeds if seeds is None else seeds)
            for stream in self.streams
            for variant in self.variants
            for method in self.methods_of(variant)
            if (pair := Pair(method=method, stream=stream)) not in left_out
        ]


def explained(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first mistake that this model found."""
    mistake = error.errors()[0]
    path = [part for part in mistake["loc"] if part != "[key]"]
    # People count from 1.
    where = ".".join(str(part + 1) if isinstance(part, int) else part for part in path)
    message = str(mistake["msg"]).removeprefix("Value error, ")
    if mistake["type"] == "extra_forbidden":
        keys = _model_at(path[:-1], model).model_fields
        message = f"no such key{did_you_mean(str(path[-1]), keys)}; there are {', '.join(keys)}"
    elif mistake["type"] == "missing":
        message = "this key is required"
    return f"{where}: {message}" if where else message


def _model_at(path: list[Any], model: type[BaseModel]) -> type[BaseModel]:
    """Find the model at a path of keys and positions."""
    for part in path:
        if part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
