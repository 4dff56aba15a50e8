"""A model for other programs: an ONNX or a torch.export file with normalisation, network and
classifier inside.

Its input `images` is what the model takes: uint8 [N, C, H, W], or float32 inputs for a network
that was adopted without a view. Its outputs are `scores` and `probabilities`, [N, classes], and
with a threshold `accepted`, [N]: whether an image may be of a known class. The class names, and how
a photograph becomes an input, are JSON: under `classes` and `input` in the metadata of ONNX, and in
the extra files `classes.json` and `model.json` of torch.export. Nothing is written before the file,
read back, has given the same probabilities.

There is no TorchScript: torch deprecates it, and loading it runs code. A torch.export file is a
graph of operators in JSON beside raw weights.
"""

import copy
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bntricks.errors import RunError, UserError, extra
from bntricks.model.answers import known_scores
from bntricks.model.model import Model
from bntricks.networks.head import last_linear
from bntricks.networks.imported import summary

CLOSE = 1e-4
"""How far a probability may be from the model's own."""


class Deployed(nn.Module):
    """A module from a model's input to scores and probabilities, in evaluation mode."""

    def __init__(self, model: Model, threshold: float | None = None) -> None:
        super().__init__()
        self.threshold, self.lowest = threshold, None
        self.temperature = model.metadata.temperature
        if threshold is not None and model.frozen is not None:
            own = known_scores(model)  # of which this share is refused
            place = int(threshold * len(own))
            self.lowest = float(own[place]) if place < len(own) else float("inf")
        self.net = copy.deepcopy(model.net).cpu()
        self.view = model.view
        model.learner.fit()
        head = model.learner.method.classify.head(model.learner.state)
        if head is not None:
            old = last_linear(self.net)
            name = next(name for name, module in self.net.named_modules() if module is old)
            if not name:
                raise UserError(
                    "a network of one linear layer has no features to compare: use linear"
                )
            self.net.set_submodule(name, head.cpu())
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        scores = self.net(self.view(images, None))
        probabilities = (scores / self.temperature).softmax(1)
        if self.threshold is None:
            return scores, probabilities
        if self.lowest is None:
            return scores, probabilities, probabilities.amax(1) > self.threshold
        return scores, probabilities, scores.amax(1) >= self.lowest


def to_onnx(model: Model, threshold: float | None = None) -> tuple[bytes, float]:
    """Make an ONNX file; also return the largest difference of its probabilities from the model's
    own."""
    metadata = model.metadata
    with extra():
        import onnxruntime
        import onnxscript  # noqa: F401 (torch's exporter needs it)
    deployed, sample = Deployed(model, threshold), _samples(model, 2)
    outputs = ["scores", "probabilities", *([] if threshold is None else ["accepted"])]
    with _quiet(), _traced():
        program = torch.onnx.export(
            deployed,
            (sample,),
            dynamo=True,
            input_names=["images"],
            output_names=outputs,
            dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        )
    assert program is not None
    properties = {"classes": metadata.classes, **description(model, threshold)}
    texts = {name: json.dumps(value) for name, value in properties.items()}
    program.model.metadata_props.update(metadata.versions | texts)
    content = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def probabilities(x: Tensor) -> Tensor:
        (answer,) = session.run(["probabilities"], {"images": x.numpy()})
        return torch.from_numpy(answer)

    return content, check_agreement(model, probabilities)


def to_pt2(model: Model, threshold: float | None = None) -> tuple[bytes, float]:
    """Make a torch.export file; also return the largest difference of its probabilities from the
    model's own."""
    metadata = model.metadata
    size = {"images": {0: torch.export.Dim("batch")}}
    about = {"versions": metadata.versions, **description(model, threshold)}
    extra = {"classes.json": json.dumps(metadata.classes), "model.json": json.dumps(about)}
    file = io.BytesIO()
    deployed, sample = Deployed(model, threshold), _samples(model, 2)
    with _quiet(), _traced():
        program = torch.export.export(deployed, (sample,), dynamic_shapes=size)
    with _quiet():
        torch.export.save(program, file, extra_files=extra)
        reloaded = torch.export.load(io.BytesIO(file.getvalue())).module()
    return file.getvalue(), check_agreement(model, lambda x: reloaded(x)[1].detach())


def description(model: Model, threshold: float | None) -> dict[str, Any]:
    """Describe the input and what is inside, as plain values. Mean and deviation are not there,
    lest somebody normalise twice."""
    metadata = model.metadata
    images = metadata.view is not None
    own: dict[str, Any] = {
        "shape": ["N", *metadata.shape],
        "type": "uint8" if images else "float32",
    }
    if images:
        own |= {"layout": "NCHW", "values": [0, 255], "normalise": False}
        if metadata.shape[0] == 3:
            own["channels"] = "RGB"
        square = metadata.square
        name = square.interpolation.upper()
        shrinking, enlarging = ("BOX", "BILINEAR") if name == "AREA" else (name, name)
        own |= {
            "upright": True,
            "crop": {"of": "centre square", "share": square.crop},
            "resize": [square.size, square.size],
            "interpolation": {"shrinking": shrinking, "enlarging": enlarging},
        }
    return {"input": own, "temperature": metadata.temperature, "threshold": threshold}


def check_agreement(model: Model, probabilities: Callable[[Tensor], Tensor]) -> float:
    """Compare the probabilities of a runtime with the model's own, on random samples and on real
    ones if the model has some; a difference that is too large is an error."""
    batches = [_samples(model, 7)]
    if model.held_out is not None and len(model.held_out):
        batches.append(model.held_out.x[:256])
    differences: list[Tensor] = []
    for x in batches:
        differences.append(probabilities(x) - model.predict_proba(x))
    largest = float(torch.cat(differences).abs().max())
    if not largest <= CLOSE:  # nor is NaN close
        raise RunError(f"the file's probabilities are {largest:.2g} off: nothing was written")
    return largest


def _samples(model: Model, count: int) -> Tensor:
    shape, generator = (count, *model.metadata.shape), torch.Generator().manual_seed(0)
    if model.metadata.view is None:
        return torch.randn(shape, generator=generator)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


@contextmanager
def _traced() -> Iterator[None]:
    """Turn what torch.export cannot follow into a one-line error."""
    try:
        yield
    except Exception as error:
        cause = error.__cause__ or error  # torch.onnx wraps it in pages of advice
        raise UserError(
            f"torch.export cannot trace this network: {summary(cause)}; make its forward free of "
            "data-dependent branches"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's output, warnings and logs."""
    level = logging.root.manager.disable
    with ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w"))
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(level)
