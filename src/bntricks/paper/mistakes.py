"""What is wrong in a study's TOML, in one line: the key, and what is allowed there."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from bntricks.errors import did_you_mean


def explained(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake that this model found."""
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
    """The model that a path of keys and positions leads to."""
    for part in path:
        if part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
