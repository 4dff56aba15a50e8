"""BatchNorm in class-incremental learning.

    from bntricks import BNTricks                                    # in your own loop
    from bntricks import Memory, balance, frozen_ema, update_ema     # and its pieces
    from bntricks import Learner, make                               # or the whole method
    from bntricks import Model                                       # or a model for your images
    from bntricks import Config, run                                 # or the paper's protocol

Names are imported when they are first used, so that `bnt --help` needs no torch.
"""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:  # type checkers import these, everybody else by `__getattr__`
    from bntricks.batch import Batch as Batch, balance as balance
    from bntricks.cli.console import progress as progress
    from bntricks.doctor import Diagnosis as Diagnosis, diagnose as diagnose, mixed as mixed
    from bntricks.errors import RunError as RunError, UserError as UserError
    from bntricks.estimator import IncrementalClassifier as IncrementalClassifier
    from bntricks.memory import Memory as Memory
    from bntricks.methods import NotNegative as NotNegative, make as make, method as method
    from bntricks.model.model import Model as Model
    from bntricks.networks.backbones import (
        BACKBONES as BACKBONES,
        Backbone as Backbone,
        ImageInput as ImageInput,
    )
    from bntricks.networks.head import HEADS as HEADS, last_linear as last_linear
    from bntricks.networks.norms import NORMS as NORMS
    from bntricks.networks.norms.replace import replace_norm as replace_norm
    from bntricks.networks.norms.variant import Rows as Rows, given_rows as given_rows
    from bntricks.networks.registry import NETWORKS as NETWORKS
    from bntricks.networks.resnet import ResNet as ResNet
    from bntricks.norm import (
        RunningStatistics as RunningStatistics,
        freeze_ema as freeze_ema,
        frozen_ema as frozen_ema,
        moments as moments,
        recalibrate as recalibrate,
        swapped as swapped,
        update_ema as update_ema,
    )
    from bntricks.paper import load_study as load_study
    from bntricks.plugins.imports import import_code as import_code
    from bntricks.recipes.classifiers import Linear as Linear, NearestMean as NearestMean
    from bntricks.recipes.corrections import Correction as Correction, correction as correction
    from bntricks.recipes.language import (
        BM as BM,
        BM2 as BM2,
        Bb as Bb,
        Bmix as Bmix,
        Bp as Bp,
        Bt as Bt,
        Loss as Loss,
        Method as Method,
        Pass as Pass,
        balanced as balanced,
        lam as lam,
    )
    from bntricks.recipes.lesson import Lesson as Lesson
    from bntricks.recipes.losses import ce as ce, kd as kd, loss as loss
    from bntricks.recipes.policies import Policy as Policy, Reservoir as Reservoir
    from bntricks.recipes.recalibrations import RECALIBRATIONS as RECALIBRATIONS
    from bntricks.recipes.rewrite import (
        bn_tricks as bn_tricks,
        corrected as corrected,
        recalibrated as recalibrated,
    )
    from bntricks.report import write_report as write_report
    from bntricks.report.pairs import compare as compare
    from bntricks.report.records import load_records as load_records
    from bntricks.runs.config import Config as Config
    from bntricks.runs.folder import run as run
    from bntricks.runs.record import Record as Record
    from bntricks.runs.request import Request as Request
    from bntricks.runs.train import train as train
    from bntricks.streams import (
        Stream as Stream,
        View as View,
        from_arrays as from_arrays,
        from_dataset as from_dataset,
        open_stream as open_stream,
        rearrange as rearrange,
    )
    from bntricks.streams.registry import (
        GivenOptions as GivenOptions,
        OpenOptions as OpenOptions,
        StreamInfo as StreamInfo,
        stream as stream,
    )
    from bntricks.sweeps.local import Failure as Failure, Shared as Shared, sweep as sweep
    from bntricks.sweeps.plan import plan as plan
    from bntricks.sweeps.search import Range as Range, search as search
    from bntricks.training.learner import Learner as Learner
    from bntricks.training.optimisers import OPTIMISERS as OPTIMISERS
    from bntricks.training.tricks import BNTricks as BNTricks


@cache
def _modules() -> dict[str, str]:
    """Read the module of every public name from the imports above."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [(node.module, node.names) for node in found if (node.module or "").startswith(__name__)]
    return {
        alias.name: module for module, names in own for alias in names if module and alias.asname
    }


def __getattr__(name: str) -> Any:
    if name == "told":  # until 0.4
        warn("bntricks.told is now called given_rows", FutureWarning, stacklevel=2)
        name = "given_rows"
    if name == "__all__":
        return list(_modules())
    if name.startswith("__") or name not in _modules():
        raise AttributeError(f"module 'bntricks' has no attribute {name!r}")
    from bntricks.errors import extra

    with extra():
        return getattr(import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return sorted(_modules())
