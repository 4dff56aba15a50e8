"""A model for other programs: an ONNX file with normalisation, network and classifier inside.

Its input `images` is what the learner takes: uint8 [N, C, H, W], or float32 inputs for a network
that was adopted without a view. Its outputs are `scores` and `probabilities`, [N, classes]. The
class names are JSON under `classes` in the metadata. Nothing is written before onnxruntime has
given the same probabilities.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bntricks.errors import RunError, UserError
from bntricks.files import write_atomically
from bntricks.networks.resnet import classifier
from bntricks.streams.files.source import shown
from bntricks.training.learner import Learner

CLOSE = 1e-4
"""How far a probability may be from the learner's own."""


class NearestMean(nn.Module):
    """In the place of a linear classifier: minus the squared distance to each class mean, and
    -inf for classes that have none."""

    centres: Tensor
    none: Tensor

    def __init__(self, classes: Tensor, means: Tensor, outputs: int) -> None:
        super().__init__()
        centres, none = (
            means.new_zeros(outputs, means.shape[1]),
            means.new_full((outputs,), torch.inf),
        )
        self.register_buffer("centres", centres.index_copy(0, classes, means))
        self.register_buffer("none", none.index_fill(0, classes, 0.0))

    def forward(self, features: Tensor) -> Tensor:
        apart = features[:, None] - self.centres  # [B, outputs, features]
        return -(apart.square().sum(2) + self.none)


class Deployed(nn.Module):
    """From what the learner takes to scores and probabilities, in evaluation mode."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.net = copy.deepcopy(learner.net).cpu()
        self.view = learner.view
        if learner.method.classify == "nearest class mean":
            classes, means = (part.cpu() for part in learner.class_means())
            _replace(self.net, NearestMean(classes, means, len(learner.classes)))
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.net(self.view(images, None))
        return scores, scores.softmax(1)


def to_onnx(learner: Learner, path: Path) -> float:
    """Write the file; returns how far its probabilities are from the learner's own, at most."""
    about = learner.about
    if about is None:
        raise UserError("this learner has no class names to export: make it with Learner.adopt")
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 (torch's exporter needs it)
    except ImportError:
        raise UserError(
            "exporting to ONNX needs onnx, onnxscript and onnxruntime: pip install 'bntricks[onnx]'"
        ) from None
    sample = _samples(learner, 2)
    with _quiet():
        program = torch.onnx.export(
            Deployed(learner),
            (sample,),
            dynamo=True,
            input_names=["images"],
            output_names=["scores", "probabilities"],
            dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        )
    assert program is not None
    said = {"classes": json.dumps(about.classes), "shape": json.dumps(about.shape)}
    program.model.metadata_props.update(said | about.versions)
    content = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    apart = check_agreement(learner, session)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise UserError(f"cannot write {shown(path)}: {error.strerror or error}") from None
    return apart


def check_agreement(learner: Learner, session: Any) -> float:
    """How far the probabilities of a runtime are from the learner's own, on random samples and on
    real ones where the learner has some; too far is a failure."""
    checked = [_samples(learner, 7)]
    if learner.tests is not None and len(learner.tests):
        checked.append(learner.tests.x[:256])
    parts: list[Tensor] = []
    for x in checked:
        (found,) = session.run(["probabilities"], {"images": x.numpy()})
        parts.append(torch.from_numpy(found) - learner.predict_proba(x))
    apart = float(torch.cat(parts).abs().max())
    if not apart <= CLOSE:  # nor is NaN close
        raise RunError(f"onnxruntime's probabilities are {apart:.2g} off: nothing was written")
    return apart


def _samples(learner: Learner, count: int) -> Tensor:
    assert learner.about is not None
    shape, generator = (count, *learner.about.shape), torch.Generator().manual_seed(0)
    if learner.about.view is None:
        return torch.randn(shape, generator=generator)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


def _replace(net: nn.Module, head: nn.Module) -> None:
    """Put a head in the place of the classifier."""
    old = classifier(net)
    name = next(name for name, module in net.named_modules() if module is old)
    if not name:
        raise UserError("a network of one linear layer has no features to compare: use linear")
    net.set_submodule(name, head)


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks about itself on stdout, in warnings and in its log."""
    log, level = logging.getLogger("torch.onnx"), logging.getLogger("torch.onnx").level
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings(), redirect_stdout(nowhere):
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)
