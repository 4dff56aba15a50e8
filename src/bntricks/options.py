"""Options of a run, each declared once, where it is used: with its help, which is the docstring
below the field, its roles, and its panel in the help. Nothing here needs torch."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from bntricks.errors import InvalidOptions

Interpolation = Literal["area", "bilinear", "bicubic"]
"""How images are resized."""


@dataclass(frozen=True, slots=True)
class Option:
    """The roles of an option, as metadata of its field."""

    changes: Literal["subject", "protocol", "computation"] = "protocol"
    """Whether it changes what is compared, how it is learned, or only how that is computed, on
    which no result depends but for its last bits."""
    of: Literal["method", "memory", "norm", "network"] | None = None
    """What may lack this option. A run without it has the default, whatever was requested."""
    decides_phi: bool = False
    """Whether a value other than the default changes whose statistics φ holds."""
    flag: bool | str = True
    """Whether the command line has a flag for it, and its name if it is another."""
    study_flag: bool = True
    """Whether `bnt study` has it too."""
    competes: bool = True
    """Whether a search may compare its values, rather than the user decide them."""
    unset: str = "none"
    """The meaning of None, in words."""
    rare: bool = False
    """Whether only `--help-all` shows it, because few runs need it."""
    panel: str = ""
    """The panel of the help that it is in, if it is another than those declared beside it."""


class Options(BaseModel):
    """Immutable values that are checked when they are set, such as options of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    shown_in: ClassVar[str] = ""
    """The panel of the help for the options that a class declares itself."""

    @classmethod
    def of(cls, /, **values: Any) -> Self:
        """Make them from plain values; every mistake is one line that says what is allowed."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise InvalidOptions.of(error) from None

    def given(self) -> list[str]:
        """List the options that were not left to their defaults, in order."""
        return [name for name in type(self).model_fields if name in self.model_fields_set]

    def changed(self) -> set[str]:
        """List the options whose values are not the defaults."""
        return set(self.model_dump(exclude_defaults=True))

    @classmethod
    @cache
    def role(cls, name: str) -> Option:
        """Return the roles of an option, by default those of most."""
        metadata = cls.model_fields[name].metadata
        return next((each for each in metadata if isinstance(each, Option)), Option())

    @classmethod
    @cache
    def options(cls, **roles: Any) -> frozenset[str]:
        """Name the options with these roles; a tuple allows several values of a role."""
        wanted = {k: v if isinstance(v, tuple) else (v,) for k, v in roles.items()}
        return frozenset(
            name
            for name in cls.model_fields
            if all(getattr(cls.role(name), role) in values for role, values in wanted.items())
        )
