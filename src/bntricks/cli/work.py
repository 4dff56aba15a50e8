"""Options of `bnt study` and `bnt sweep`: where many runs are trained, and for how long."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from cyclopts import Parameter
from cyclopts.validators import Number

from bntricks.cli.app import Count, declare_flags
from bntricks.errors import UserError
from bntricks.options import Option
from bntricks.runs.request import FolderOptions, ProbeName, Request

if TYPE_CHECKING:
    from bntricks.sweeps.queue import Turns


@declare_flags
class Work(FolderOptions):
    """Options: where many runs are trained, and what is written of each."""

    shown_in: ClassVar[str] = "Where it is computed"

    workers: Count | None = None
    """Runs at the same time, one thread each [default: one per core; on a GPU, one]."""
    devices: str | None = None
    """Devices here, one run each: `cuda:0,cuda:1`, cores as `cpu:0,cpu:1`, `auto` for every GPU (or
    core, if there is none), or how many of `--device`."""
    per_device: Annotated[Count, Option(rare=True)] = 1
    """Runs at the same time on each of the `--devices`."""
    ray: str | None = None
    """Run on the Ray cluster at this address, or `auto` for the one this machine belongs to."""
    cpus_per_run: Annotated[float, Parameter(validator=Number(gt=0)), Option(rare=True)] = 1.0
    """On Ray: cores reserved for each run."""
    gpus_per_run: Annotated[float, Parameter(validator=Number(gte=0)), Option(rare=True)] = 0.0
    """On Ray: GPUs reserved for each run; 0.25 puts four runs on one."""
    save: Annotated[bool, Option(panel="Output")] = False
    """Write each trained network into its run's folder, as `model.safetensors`."""
    shard: Annotated[str | None, Option(rare=True)] = None
    """Train only this part of the runs, such as `2/8`, the second of eight."""
    leave: Annotated[bool, Option(rare=True)] = False
    """Leave as soon as other commands hold all runs that are left, instead of waiting for them."""
    time_limit: Annotated[str | None, Option(rare=True)] = None
    """Stop after this time, such as `3h` or `2h45m`, at a checkpoint of each run under way, with
    exit code 4; the same command goes on."""
    dry_run: bool = False
    """Only print the commands, with time and memory."""
    costs: Annotated[Path | None, Option(rare=True)] = None
    """Take step times and memory from this table, such as the `--json` of a dry run on another
    machine, instead of measuring a few steps here."""

    def request(self, probe: ProbeName | None) -> Request:
        """Make the request of each run."""
        own = self.model_dump(include=set(FolderOptions.model_fields))
        return Request(**own, probe=probe, save="end" if self.save else None)

    def placed(self, device: str) -> tuple[str, tuple[str, ...]]:
        """Return the kind of device of all runs, and the places of workers, if any are named."""
        from bntricks.sweeps.places import check_places, places

        if self.devices is None:
            if self.per_device > 1:
                raise UserError("which devices?", option="per_device", remedy="devices")
            return device, ()
        for option in ("workers", "ray"):
            if getattr(self, option) is not None:
                raise UserError("leave one of them out", option=option, remedy="devices")
        kind, names = places(self.devices, device, self.per_device)
        if not self.dry_run:
            check_places(names)
        return kind, names

    def turns(self, places: tuple[str, ...], began: float) -> Turns:
        """Return how this command takes turns with others, from when it began."""
        from bntricks.sweeps.queue import Turns

        if self.time_limit is None:
            return Turns(places, None, self.leave)
        match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", self.time_limit)
        hours, minutes, seconds = (int(x or 0) for x in match.groups()) if match else (0, 0, 0)
        if not (total := 3600 * hours + 60 * minutes + seconds):
            text = "write it as 3h, 2h45m or 90s"
            raise UserError(text, option="time_limit", value=self.time_limit)
        return Turns(places, began + total, self.leave)

    def part(self) -> slice:
        """Return which trainings are this command's own."""
        if self.shard is None:
            return slice(None)
        match = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UserError("write it as 1/8 to 8/8", option="shard", value=self.shard)
        return slice(int(match[1]) - 1, None, int(match[2]))
