"""The doctor and a run that kept its network: the groups are the tasks of its stream, by the names
of their classes."""

from __future__ import annotations

from bntricks.doctor.diagnosis import Diagnosis, diagnose
from bntricks.doctor.groups import Labelled
from bntricks.runs import network
from bntricks.runs.record import Record
from bntricks.streams import Images, Stream, View


def examine_run(record: Record, stream: Stream) -> Diagnosis:
    """What φ costs the network of this run, whose method classifies by the linear layer. Moments
    are those of the training images, and accuracy is measured on the test images."""
    net = network.load(record, stream)
    view = View(stream.mean, stream.std)

    def batches(images: Images) -> list[Labelled]:
        return [(view(images.x), images.y)]

    names = [" and ".join(stream.class_names[k] for k in task.classes) for task in stream]
    training = {name: batches(task.train) for name, task in zip(names, stream, strict=True)}
    test = {name: batches(task.test) for name, task in zip(names, stream, strict=True)}
    return diagnose(net, training, held_out=test)
