"""Options of a run, each declared once, where it is used, with what it changes and who may set it.

A default's meaning is in the docstring below a field, which is its help on the command line too.
Nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from bntricks.errors import InvalidOptions

Interpolation = Literal["area", "bilinear", "bicubic"]
"""How images are resized."""


@dataclass(frozen=True, slots=True)
class Option:
    """The roles of an option, as metadata of its field."""

    changes: Literal["subject", "protocol", "computation"] = "protocol"
    """What is compared, how it is learned, or how that is computed: but for its last bits, no
    result depends on the latter."""
    of: Literal["method", "memory", "norm", "network"] | None = None
    """What may not use it. A run has its default then, whatever was asked for."""
    decides_phi: bool = False
    """Whether a value other than the default changes whose statistics φ holds."""
    study_flag: bool = True
    """Whether `bnt study` has a flag of the same name."""
    competes: bool = True
    """Whether a search may compare values of it: others decide what is learned, or how it is
    measured."""
    unset: str = "none"
    """What None means, in words."""


class Options(BaseModel):
    """Values that are checked when they are set and never change, such as options of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def of(cls, /, **values: Any) -> Self:
        """From plain values; every mistake is one line that says what is allowed."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise InvalidOptions.of(error) from None

    def given(self) -> list[str]:
        """The options that were not left to their defaults, in order."""
        return [name for name in type(self).model_fields if name in self.model_fields_set]

    def changed(self) -> set[str]:
        """The options whose values are not the defaults."""
        return set(self.model_dump(exclude_defaults=True))

    @classmethod
    @cache
    def role(cls, name: str) -> Option:
        """The roles of an option: of one that names none, those of most."""
        metadata = cls.model_fields[name].metadata
        return next((each for each in metadata if isinstance(each, Option)), Option())

    @classmethod
    @cache
    def options(cls, **roles: Any) -> frozenset[str]:
        """The names of the options with these roles; several values of a role are a tuple."""
        wanted = {k: v if isinstance(v, tuple) else (v,) for k, v in roles.items()}
        return frozenset(
            name
            for name in cls.model_fields
            if all(getattr(cls.role(name), role) in values for role, values in wanted.items())
        )
