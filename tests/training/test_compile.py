"""--compile: the same method by compiled passes, or one clear line."""

import pytest
import torch

from bntricks.errors import UserError
from bntricks.runs import train as engine
from bntricks.runs.config import Config
from bntricks.streams import open_stream
from bntricks.training.backend import compile_passes
from helpers.lessons import third_task

TINY = {"stream": "seq-digits", "width": 2, "blocks": 1, "stages": 2, "epochs": 1}
TINY |= {"memory": 20, "images_per_class": 8, "batch": 8}


def test_compiled_runs_have_a_name_of_their_own_and_old_names_stay():
    plain, compiled = Config(**TINY), Config(**TINY, compile=True)
    assert plain.identity("data") != compiled.identity("data")
    assert plain.identity("data") == Config(**TINY, compile=False).identity("data")


def test_a_machine_that_cannot_compile_is_told_so_in_a_line(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no compiler\nhere")

    learner = third_task("er-bnt")
    net = learner.net
    monkeypatch.setattr(net, "compile", lambda: monkeypatch.setattr(net, "forward", broken))
    with pytest.raises(UserError, match=r"compile: .*\(no compiler\): leave it out"):
        compile_passes(learner, (3, 8, 8))


def test_gss_is_refused_because_its_scores_look_inside_the_layers():
    with pytest.raises(UserError, match="compile: this method takes gradients"):
        compile_passes(third_task("gss"), (3, 8, 8))


@pytest.mark.slow
def test_compiled_passes_learn_what_plain_ones_do():
    stream = open_stream("seq-digits", images_per_class=8)[:2]
    plain = engine.train(Config(**TINY), stream)
    try:
        compiled = engine.train(Config(**TINY, compile=True), stream)
    except UserError as error:
        pytest.skip(str(error))
    assert compiled.learner.net._compiled_call_impl is not None
    assert vars(compiled.learner.cost) == vars(plain.learner.cost)
    found, wanted = compiled.learner.net.state_dict(), plain.learner.net.state_dict()
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, rtol=1e-3, atol=1e-4), name
