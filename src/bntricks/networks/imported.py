"""Networks built by a user's own `package.module:function`, imported only if the user names it."""

import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from bntricks.errors import UserError
from bntricks.files import shown
from bntricks.networks.head import last_linear
from bntricks.networks.norms.replace import replace_norm
from bntricks.norm import mode
from bntricks.plugins.registry import CodeSource

PACKAGE = str(Path(__file__).parents[1])


def build_imported(
    where: str, shape: Sequence[int], outputs: int, norm: str, **knobs: Any
) -> nn.Module:
    """Call the function with the number of classes, and check that the network takes samples of
    this shape to scores [B, outputs] by its last linear layer. Another norm replaces BatchNorm."""
    net = called(where, outputs)
    knobs = {key: value for key, value in knobs.items() if value is not None}
    if norm != "bn" or "momentum" in knobs:
        if not any(isinstance(module, nn.BatchNorm2d) for module in net.modules()):
            raise UserError(
                f"the network of {where} has no BatchNorm2d to replace: leave it out",
                option="norm",
                value=norm,
            )
        net = replace_norm(net, norm, **knobs)
    try:
        head = last_linear(net).out_features
        with mode(net, training=False), torch.inference_mode():
            scores = net(torch.zeros(2, *shape))
    except Exception as error:
        raise _refusal(
            where, f"the network does not take samples of {list(shape)}: {summary(error)}"
        ) from error
    given = list(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    if given != [2, outputs] or head != outputs:
        raise _refusal(
            where,
            f"it was called with {outputs}, the number of classes, and its network gives {given} "
            f"for two samples, from a last linear layer of {head} outputs: both must be {outputs}",
        )
    return net


def called(where: str, *arguments: Any) -> nn.Module:
    """Import `package.module:function` and call it with these arguments."""
    function = _function(where)
    try:
        net = function(*arguments)
    except (Exception, SystemExit) as error:
        raise _refusal(where, f"calling it raised {summary(error)}") from error
    if not isinstance(net, nn.Module):
        takes = "the number of classes" if arguments else "no arguments"
        raise _refusal(
            where,
            f"it returned a {type(net).__name__}, not a torch.nn.Module; give a function that "
            f"takes {takes} and returns the network",
        )
    if any(map(is_lazy, chain(net.parameters(), net.buffers()))):
        raise _refusal(where, "its layers are lazy: pass it a sample before you return it")
    return net


def source_of(where: str) -> CodeSource:
    """Return the function's module, with the SHA-256 of its file."""
    _function(where)
    module = where.partition(":")[0]
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or not Path(file).is_file():
        raise _refusal(
            where, "its module has no source file, so changes to it could not be detected"
        )
    return CodeSource.of(module, Path(file).read_bytes())


def summary(error: BaseException) -> str:
    """Describe an exception of the user's code in one line."""
    lines = str(error).strip().splitlines()
    where = _place(error)
    text = f"{type(error).__name__}: {shown(lines[0])}" if lines else type(error).__name__
    return f"{text} ({shown(where)})" if where else text


def _function(where: str) -> Callable[..., Any]:
    """Import the function; modules in the working directory count too."""
    module, _, name = where.partition(":")
    here = str(Path.cwd())
    if not module or not name.isidentifier():
        raise _refusal(where, "write it as package.module:function")
    if module.endswith(".py"):
        raise _refusal(where, f"leave out .py: {module.removesuffix('.py')}:{name}")
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name, None)
    except (Exception, SystemExit) as error:
        raise _refusal(where, f"importing {module} raised {summary(error)}") from error
    if function is None:
        raise _refusal(where, f"{module} has no {name}")
    if not callable(function):
        raise _refusal(where, f"{name} of {module} is not a function")
    return function  # type: ignore[no-any-return]


def _place(error: BaseException) -> str | None:
    """Find the line of the user's code that raised this: the last outside installed packages."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    installed = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"), PACKAGE)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename
        if not file.startswith("<") and not any(part in file for part in installed):
            return f"{file}, line {frame.lineno}"
    return None


def _refusal(where: str, reason: str) -> UserError:
    return UserError(reason, option="net", value=where)
