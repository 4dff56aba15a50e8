"""The paper's claims as comparisons of numbers.

A `Statement` in a study's TOML covers several metrics, streams and variants at once; a `Claim` is
one comparison of it. Every claim is a weighted sum of sides, so its difference is computed in the
same way from the runs of a seed and from the paper's tables.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from bntricks.runs.metrics import ELSEWHERE, LISTS, METRICS

Kind = Literal["greater", "less", "sign", "similar", "trend"]

SPECIAL = re.compile(
    r"previous|learned|every_task|acc_after:[1-9]\d*|accuracy:[1-9]\d*:[1-9]\d*"
    r"|biased_phi\.(acc_lost|last_task_gained)|phi\.(oracle_gain|(oracle|task|memory)_acc)"
    r"|phi\.(acc|old|nearest_mean)_change"
)
NUMBERS = (*(name for name in METRICS if name not in LISTS), *ELSEWHERE)
SPECIAL_NAMES = "previous, learned, every_task, acc_after:K, accuracy:I:J, biased_phi.acc_lost, "
SPECIAL_NAMES += "biased_phi.last_task_gained, phi.oracle_gain, phi.oracle_acc, phi.task_acc, "
SPECIAL_NAMES += "phi.memory_acc, phi.acc_change, phi.old_change and phi.nearest_mean_change"


def _check_metric(metric: str) -> str:
    if metric in LISTS:
        raise ValueError(f"{metric} is a list: a claim needs one number, such as {LISTS[metric]}")
    if metric not in NUMBERS and not SPECIAL.fullmatch(metric):
        names = f"{', '.join(NUMBERS)}, {SPECIAL_NAMES}"
        raise ValueError(f"unknown metric {metric!r}: there are {names}")
    return metric


Metric = Annotated[str, AfterValidator(_check_metric)]
"""A number of a record: one of its metrics, or a part of one. `acc_after:k` is ACC after task k,
`accuracy:i:j` is R[i][j], `previous` the mean final accuracy of all tasks but the last, `learned`
the mean accuracy of each task right after it was learned, `every_task` the final accuracy of each
task: the claim must hold on all."""

STREAMS = {
    "seq-cifar10": "Seq-CIFAR-10",
    "seq-cifar100": "Seq-CIFAR-100",
    "seq-cifar100-20": "Seq-CIFAR-100-20",
    "seq-tiny-imagenet": "Seq-Tiny-ImageNet",
    "seq-tiny-imagenet-20": "Seq-Tiny-ImageNet-20",
}
"""The paper's names of the streams."""


class Side(BaseModel):
    """One side of a comparison: a method on a stream, in one variant of the study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    stream: str
    variant: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.method, self.variant)))


class ClaimFields(BaseModel):
    """The common fields of a claim and of the statement it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    where: str = ""
    kind: Kind
    margin: Annotated[float, Field(gt=0)] | None = None
    along: tuple[str, ...] = ()
    along_b: tuple[str, ...] = ()
    """The variants of B for those of A [default: the same]."""
    after: AwareDatetime | None = None
    """The time when the claim was written down, if only runs that finished later may test it."""


class Claim(ClaimFields):
    """One statement that runs can support or contradict.

    `greater`: the metric of A is greater than that of B. `less`: it is smaller or, with a margin,
    greater by less than that; without a side B, of A alone. `sign`: the metric of A is greater
    than 0. `similar`: A and B differ by less than the margin; without a side B, A differs from 0.
    `trend`: A's gain over B grows along the listed variants; its difference is the slope of a
    straight line through the gains, in points for each step from one variant to the next.
    """

    metric: Metric
    a: Side
    b: Side | None = None

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        if self.kind not in ("less", "similar") and (self.b is None) != (self.kind == "sign"):
            raise ValueError(
                f"{self.text!r}: kind {self.kind} compares with a side b; sign has none"
            )
        if self.margin is None and self.kind == "similar":
            raise ValueError(f"{self.text!r}: kind similar needs a margin")
        if self.margin is not None and self.kind not in ("less", "similar"):
            raise ValueError(f"{self.text!r}: a margin belongs to the kinds similar and less")
        if self.along_b and len(self.along_b) != len(self.along):
            raise ValueError(f"{self.text!r}: along_b needs as many variants as along")
        if (len(self.along) < 2) == (self.kind == "trend"):
            raise ValueError(
                f"{self.text!r}: kind trend needs at least two variants in `along`; other kinds "
                "take none"
            )
        if self.metric == "every_task" and self.kind != "greater":
            raise ValueError(f"{self.text!r}: every_task is for kind greater")
        if self.b is not None and self.b.stream != self.a.stream:
            raise ValueError(f"{self.text!r}: both sides must learn the same stream")
        return self

    def terms(self) -> tuple[tuple[float, Side], ...]:
        """Return the sides with their weights; the difference is the weighted sum of metrics."""
        if self.b is None:
            return ((1.0, self.a),)
        if self.kind != "trend":
            return ((1.0, self.a), (-1.0, self.b))
        centred = [i - (len(self.along) - 1) / 2 for i in range(len(self.along))]
        scale = sum(x * x for x in centred)
        return tuple(
            (sign * x / scale, side.model_copy(update={"variant": label}))
            for x, own, other in zip(centred, self.along, self.along_b or self.along, strict=True)
            for sign, side, label in ((1, self.a, own), (-1, self.b, other))
        )


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class Party(BaseModel):
    """A side without its stream; its own variant, if any, replaces the statement's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    variant: str | None = None


class Statement(ClaimFields):
    """Claims that differ only in metric, stream or variant. Their text has {metric}, {stream} and
    {variant} as placeholders."""

    metric: Annotated[tuple[Metric, ...], BeforeValidator(_as_tuple)]
    stream: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
    variant: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ("",)
    a: Party
    b: Party | None = None

    @field_validator("text")
    @classmethod
    def _names_what_there_is(cls, text: str) -> str:
        try:
            text.format(metric="", stream="", variant="")
        except (AttributeError, IndexError, KeyError, ValueError):
            raise ValueError("it may name {metric}, {stream} and {variant} in braces") from None
        return text

    def claims(self) -> tuple[Claim, ...]:
        shared = self.model_dump(include={*ClaimFields.model_fields} - {"text"})
        return tuple(
            Claim(
                text=self.text.format(
                    metric=metric.upper(), stream=STREAMS.get(stream, stream), variant=variant
                ),
                metric=metric,
                a=_side(self.a, stream, variant),
                b=None if self.b is None else _side(self.b, stream, variant),
                **shared,
            )
            for metric, stream, variant in product(self.metric, self.stream, self.variant)
        )


def _side(party: Party, stream: str, variant: str) -> Side:
    own = variant if party.variant is None else party.variant
    return Side(method=party.method, stream=stream, variant=own)
