"""Optional outputs of a run: probes, models and the trained network."""

from dataclasses import dataclass
from pathlib import Path

from bntricks.errors import UserError
from bntricks.runs import models, network, probes
from bntricks.runs.config import Config
from bntricks.runs.record import Record, maps
from bntricks.runs.request import Request
from bntricks.streams import Stream
from bntricks.training.learner import Learner


@dataclass(frozen=True, slots=True)
class Outputs:
    """The optional outputs that a request asks of the run in this folder."""

    request: Request
    config: Config
    stream: Stream
    folder: Path

    def there(self, record: Record) -> bool:
        """Whether the finished run has the outputs for which it may be trained again, to the same
        bits, without `force`."""
        name = self.request.probe
        looked = name is None or probes.looked(name, record, self.folder, self.stream)
        kept = not self.request.keep_network or network.is_kept(self.folder)
        return looked and kept and (record.readings is not None or not self.request.readings)

    def check_there(self, record: Record) -> None:
        """Refuse outputs that a finished run lacks, and that only `force` may train again for."""
        missing = []
        last = self._models()[-2:]  # a run that starts from a model lacks earlier ones
        if not all(path.is_file() for path in last):
            missing.append("saving its network")
        if self.request.epoch_accuracy and record.epoch_accuracy is None:
            missing.append("measuring its accuracy after each epoch")
        if missing:
            raise UserError(
                f"the run in {self.folder} finished without {' and without '.join(missing)}: train "
                "it again",
                remedy="force",
            )

    def from_the_start(self, before: Request) -> bool:
        """Whether this asks for something that an interrupted run should have done on the way."""
        own, every = self.request, "every task"
        return (
            own.probe not in (None, before.probe)
            or (own.save == every and before.save != every)
            or (own.epoch_accuracy and not before.epoch_accuracy)
            or (own.readings and not before.readings)
        )

    def task_over(self, learner: Learner, stream: Stream, index: int) -> None:
        """Probe and save the learner as requested when a task, counted from 0, is over."""
        if self.request.probe is not None:
            look = probes.probe(self.request.probe, self.folder, self.config.seed)
            look(learner, stream, index)
        if self.request.save == "every task" and index < len(stream) - 1:
            self._save(learner, index, models.path_in(self.folder, index + 1))

    def finish(self, learner: Learner) -> None:
        """Save the learner as requested when the last task is over."""
        if self.request.keep_network:
            network.save(learner.net, self.folder)
        if self.request.save is not None:
            self._save(learner, len(self.stream) - 1, models.path_in(self.folder))

    def remove_others(self) -> None:
        """Remove outputs that only an earlier training of this run was asked for."""
        own = {*self._models()}
        if self.request.probe is not None:
            own.add(maps.path_in(self.folder, self.request.probe))
        if self.request.keep_network:
            own.add(self.folder / network.NAME)
        earlier = {maps.path_in(self.folder, name) for name in probes.PROBES}
        earlier |= {*models.paths_in(self.folder, "every task", len(self.stream))}
        for path in (earlier | {self.folder / network.NAME}) - own:
            path.unlink(missing_ok=True)

    def _models(self) -> list[Path]:
        save = self.request.save
        return [] if save is None else models.paths_in(self.folder, save, len(self.stream))

    def _save(self, learner: Learner, index: int, path: Path) -> None:
        models.save(learner, self.stream, index, config=self.config, path=path)
