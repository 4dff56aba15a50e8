"""Requests: where a run is stored, and which optional outputs it has. They change neither its bits
nor its name. Needs no torch."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bntricks.options import Option, Options

ProbeName = Literal["phi", "statistics", "overlap"]
Track = Literal["deferred", "every-step"]


class FolderOptions(Options):
    """Where runs are stored, and what is written while they train."""

    shown_in: ClassVar[str] = "Output"

    data: Annotated[Path | None, Option(panel="Data")] = None
    """Folder with an existing copy of the data, full or cut down [default: $BNT_DATA, or a
    download]."""
    out: Path = Path("runs")
    """Where runs are written, each in a folder of its own, and the report of several beside
    them."""
    checkpoint_seconds: Annotated[float, Field(ge=0), Option(rare=True)] = 120.0
    """Time between a run's checkpoints, in seconds; there is one at the end of each task too."""
    log: Annotated[tuple[str, ...], Option(rare=True)] = ()
    """Write losses and accuracies elsewhere too: `csv` (log.csv in the run's folder),
    `tensorboard`, `wandb` (Weights & Biases, kept in the run's folder until you sync it) or
    `wandb-online`, which sends them."""
    force: bool = False
    """Train from the start, even if there is a record or a checkpoint."""


class Request(FolderOptions):
    """What one run is asked for besides its configuration."""

    track: Annotated[Track, Option(rare=True)] = "deferred"
    """`deferred` leaves out tracking passes that cannot affect any evaluation, with the same
    result to the bit; `every-step` leaves out none."""
    tensorboard: Annotated[bool, Option(rare=True)] = False
    """Write losses, accuracies and the drift of φ for TensorBoard too, in the run's folder. φ is
    read when a task ends; with `--track every-step`, along the way as well."""
    epoch_accuracy: Annotated[bool, Option(rare=True)] = False
    """Evaluate on all tasks so far after each epoch too."""
    readings: Annotated[bool, Option(rare=True)] = False
    """Also read labels off the network by every correction that only rescores, and as every
    method would whose φ follows another batch while its θ is the same, without another
    training; `--correct` with the name of one does that too, and shows that one."""
    probe: ProbeName | None = None
    """Look at the network as well: `phi` measures ACC with φ of other images, in the end;
    `statistics` and `overlap` make the maps of features of Figures 1 and 4, for `bnt report`."""
    start: Annotated[Path | None, Option(flag="from", rare=True)] = None
    """Start from the weights of this model, such as one that `--save-every-task` wrote: the tasks
    whose classes it knows are not learned again."""
    save: Annotated[Literal["end", "every task"] | None, Option(flag=False)] = None
    """Write the network as a model file, after the last task or after each."""
    keep_network: Annotated[bool, Option(flag=False)] = False
    """Keep the trained network for whoever reads the record."""

    def remembered(self) -> dict[str, Any]:
        """Return what a resumed run is asked for again; its folder gives `out`."""
        paths = {name: getattr(self, name) for name in ("data", "start")}
        own = Request.model_fields.keys() - FolderOptions.model_fields.keys()
        return {
            **self.model_dump(include=own - {"tensorboard", "start"}),
            **{name: path and str(path.absolute()) for name, path in paths.items()},
        }

    @property
    def loggers(self) -> tuple[str, ...]:
        return (*self.log, *(["tensorboard"] if self.tensorboard else []))
