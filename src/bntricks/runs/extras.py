"""What a run may be asked to leave behind beside its results. None of it changes a run's bits or
its name."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self, get_args

from bntricks.errors import UserError
from bntricks.runs import maps, models, network, probes
from bntricks.runs.config import Config
from bntricks.runs.record import Record
from bntricks.runs.train import Probe
from bntricks.streams import Stream
from bntricks.training.learner import Learner


@dataclass(frozen=True, slots=True)
class Extras:
    """All by choice."""

    probe: str | None = None
    """Look at the learner after each task."""
    keep_network: bool = False
    """Keep the trained network for whoever reads the record."""
    save: models.When | None = None
    """Write the network as a model file, after the last task or after each."""
    epoch_accuracy: bool = False
    """Evaluate after each epoch too."""
    readings: bool = False
    """Read labels off in every other way that the training allows."""

    @classmethod
    def parse(cls, request: dict[str, Any]) -> Self:
        """From plain values, where earlier versions left some out; else a ValueError."""
        known = {f.name: request[f.name] for f in fields(cls) if f.name in request}
        extras = cls(**known)
        switches = (extras.keep_network, extras.epoch_accuracy, extras.readings)
        plain = isinstance(extras.probe, str | None) and {type(each) for each in switches} == {bool}
        if not plain or extras.save not in (None, *get_args(models.When)):
            raise ValueError("not what a run can be asked for")
        return extras

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def there(self, record: Record, folder: Path, stream: Stream) -> bool:
        """Whether the finished run in this folder has left what can be had without being told: it
        is trained again if it has not, to the same bits."""
        looked = self.probe is None or probes.looked(self.probe, record, folder, stream)
        kept = not self.keep_network or network.is_kept(folder)
        return looked and kept and (record.readings is not None or not self.readings)

    def check_there(self, record: Record, folder: Path, stream: Stream) -> None:
        """Refuse what a finished run did not keep: training again takes long, so the user says."""
        missing = []
        if self.save and not all(
            p.is_file() for p in models.paths_in(folder, self.save, len(stream))
        ):
            missing.append("saving its network")
        if self.epoch_accuracy and record.epoch_accuracy is None:
            missing.append("measuring its accuracy after each epoch")
        if missing:
            raise UserError(
                f"the run in {folder} finished without {' and without '.join(missing)}: train it "
                "again",
                remedy="force",
            )

    def from_the_start(self, before: Self) -> bool:
        """Whether this asks for something along the way that a run so far was not asked for."""
        every = "every task"
        return (
            self.probe not in (None, before.probe)
            or (self.save == every and before.save != every)
            or (self.epoch_accuracy and not before.epoch_accuracy)
            or (self.readings and not before.readings)
        )

    def look(self, folder: Path, config: Config) -> Probe | None:
        """What is done whenever a task is over."""
        probe = None if self.probe is None else probes.probe(self.probe, folder, config.seed)
        if self.save != "every task":
            return probe

        def look_and_save(learner: Learner, stream: Stream, index: int) -> None:
            if probe is not None:
                probe(learner, stream, index)
            if index < len(stream) - 1:
                path = models.path_in(folder, index + 1)
                models.save(learner, stream, index, config=config, path=path)

        return look_and_save

    def remove_others(self, folder: Path, stream: Stream) -> None:
        """Remove what only an earlier training of this run was asked for."""
        own = set() if self.save is None else {*models.paths_in(folder, self.save, len(stream))}
        if self.probe is not None:
            own.add(maps.path_in(folder, self.probe))
        if self.keep_network:
            own.add(folder / network.NAME)
        earlier = {maps.path_in(folder, name) for name in probes.PROBES}
        earlier |= {*models.paths_in(folder, "every task", len(stream)), folder / network.NAME}
        for path in earlier - own:
            path.unlink(missing_ok=True)

    def finish(self, learner: Learner, stream: Stream, folder: Path, config: Config) -> None:
        """What is done when the last task is over."""
        if self.keep_network:
            network.save(learner.net, folder)
        if self.save is not None:
            last = len(stream) - 1
            models.save(learner, stream, last, config=config, path=models.path_in(folder))
