"""Every option of a run, typed and bounded, with the paper's values as defaults.

A `Config` holds what a run's result depends on and nothing else: where the data lies, where
results go and how progress is shown are no part of it. Its hash names the run. Most options are
declared on the floor that uses them.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated

from cyclopts import Parameter
from pydantic import AfterValidator, Field

from bntricks.networks.options import NetworkOptions
from bntricks.options import Option, Options
from bntricks.recipes.options import RecipeOptions
from bntricks.streams.options import StreamOptions
from bntricks.training.options import TrainingOptions

REVISION = 1
"""Raised whenever the same configuration would train to different bits than before."""


class Subject(Options):
    """What runs are compared by."""

    method: Annotated[str, Option("subject", study_flag=False)] = "er-bnt"
    """The method, by its name in `bnt methods`."""
    hyper: Annotated[
        dict[str, float],
        Parameter(parse=False),
        Option("subject", "method", study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The method's own hyper-parameters; on the command line each has a flag of its own name."""
    stream: Annotated[str, Option("subject", study_flag=False, competes=False)] = "seq-cifar10"
    """The stream of tasks, by its name in `bnt streams`."""
    seed: Annotated[
        int, Field(ge=0, le=2**32 - 1), Option("subject", study_flag=False, competes=False)
    ] = 0
    """Decides initial weights, order, crops, and what the memory keeps and draws."""


def _device(name: str) -> str:
    if re.fullmatch(r"cpu|mps|cuda(:\d+)?", name) is None:
        raise ValueError("give cpu, cuda, cuda:N or mps")
    return name


# Fields of the last base come first.
class Config(StreamOptions, NetworkOptions, RecipeOptions, TrainingOptions, Subject):
    """What is trained, on what, and how."""

    device: Annotated[str, AfterValidator(_device), Option("computation", study_flag=False)] = "cpu"
    """Where to compute: cpu, cuda, cuda:N or mps."""
    deterministic: Annotated[bool, Option("computation")] = False
    """Allow only kernels that add in a fixed order: on CUDA, the same bits every time, but slower.
    On the CPU this makes no difference."""
    compile: Annotated[bool, Option("computation")] = False
    """Let torch.compile make the network's passes: different last bits, and a minute or more of
    compiling. Meant for GPUs."""
    ranks: Annotated[
        int,
        Field(ge=1),
        Parameter(parse=False),
        Option("computation", study_flag=False, competes=False),
    ] = 1
    """Processes this run is split over: as many as torchrun starts."""
    synchronised: bool = False
    """Under torchrun: normalise by the batch statistics of all ranks together, not each by its
    own."""
    threads: Annotated[int, Field(ge=1, le=1024), Option("computation")] = 1
    """CPU threads. Different counts give different bits; many runs beat many threads."""
    imports: Annotated[
        dict[str, str],
        Parameter(parse=False),
        Option("subject", "method", study_flag=False, competes=False),
    ] = Field(default_factory=dict)
    """The user's own files that the run uses, each with the SHA-256 of its content. Nobody need
    give them: they follow from what is imported."""

    def identity(self, fingerprint: str) -> str:
        """The run's name: a hash of all of this and of the data's content.

        Values at their default are left out, so that a knob added later, which by default changes
        nothing, does not rename old runs. A default that changes must raise REVISION.
        """
        chosen = self.model_dump(mode="json", exclude_defaults=True)
        named = {"method": self.method, "stream": self.stream, "seed": self.seed}
        whole = {"revision": REVISION, "data": fingerprint, **chosen, **named}
        text = json.dumps(whole, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
