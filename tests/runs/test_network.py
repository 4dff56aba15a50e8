"""A network that a run keeps is the one it trained, or it is refused."""

import json

import pytest
import safetensors.torch as safe

from bntricks.errors import UserError
from bntricks.runs import network
from bntricks.runs.config import Config
from bntricks.runs.folder import REQUEST, run
from bntricks.runs.resolve import resolve
from bntricks.training.checkpoint import digest

CONFIG = Config(
    method="er", stream="seq-digits", width=2, blocks=1, stages=2, images_per_class=8, epochs=1
)


@pytest.fixture
def stream():
    return resolve(CONFIG, None)[0]


@pytest.fixture
def kept(tmp_path):
    return run(CONFIG, out=tmp_path, keep_network=True)


def test_the_kept_network_is_the_one_that_was_trained(kept, stream):
    net = network.load(kept, stream)
    assert digest(net.state_dict()) == kept.digest["network"]
    assert json.loads((kept.path / REQUEST).read_bytes())["keep_network"] is True


def test_a_run_keeps_no_network_unless_asked(tmp_path):
    assert not network.is_kept(run(CONFIG, out=tmp_path).path)


def test_a_run_that_did_not_keep_its_network_is_trained_again_to_the_same_bits(tmp_path, stream):
    before = run(CONFIG, out=tmp_path)
    after = run(CONFIG, out=tmp_path, keep_network=True)
    assert not after.already_there
    assert after.digest == before.digest
    network.load(after, stream)
    assert run(CONFIG, out=tmp_path, keep_network=True).already_there


@pytest.mark.fault
def test_a_damaged_network_is_refused(kept, stream):
    path = kept.path / network.NAME
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="is not the network of the run beside it"):
        network.load(kept, stream)
    path.unlink()
    with pytest.raises(UserError, match="cannot read"):
        network.load(kept, stream)


@pytest.mark.fault
def test_a_network_with_one_changed_weight_is_refused(kept, stream):
    path = kept.path / network.NAME
    tensors = safe.load(path.read_bytes())
    next(iter(tensors.values())).view(-1)[0] += 1
    path.write_bytes(safe.save(tensors))
    with pytest.raises(UserError, match="its hash is not the record's"):
        network.load(kept, stream)
