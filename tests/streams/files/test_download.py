import hashlib
import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bntricks.errors import UserError
from bntricks.streams import open_stream, registry
from bntricks.streams.files import download
from bntricks.streams.published import published_stream
from bntricks.streams.sources import cifar, tiny_imagenet

NAME = "cifar-10-binary.tar.gz"


class Quiet(SimpleHTTPRequestHandler):
    asked: list[str]

    def do_GET(self):
        type(self).asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


class Broken(BaseHTTPRequestHandler):
    """Promises more than it sends."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(bytes(200_000))

    def log_message(self, *args):
        pass


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


def publish_at(monkeypatch, **changes):
    """CIFAR-10 with another address or hash, until the test is over."""
    published = replace(cifar.CIFAR_10, **changes)
    monkeypatch.setattr(cifar, "CIFAR_10", published)
    monkeypatch.setattr(registry, "STREAMS", dict(registry.STREAMS))
    monkeypatch.setattr(registry.OPENERS, "_entries", dict(registry.OPENERS.entries()))
    monkeypatch.setattr(registry.OPENERS, "_built_in", set())
    published_stream("seq-cifar10", published, classes_per_task=2, memory=500, summary="")


@pytest.fixture
def host(tmp_path, official, monkeypatch):
    """The official host, with a small archive under the official name and its md5 known."""
    folder = official.cifar10(tmp_path / "host")
    archive = official.tar(folder, NAME)
    Quiet.asked = []
    server = serve(partial(Quiet, directory=tmp_path / "host"))
    server.url = f"http://127.0.0.1:{server.server_port}"
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(download, "RETRIES", 0)
    publish_at(monkeypatch, url=f"{server.url}/{NAME}", md5=md5)
    yield server
    server.shutdown()
    server.server_close()


def leftovers(cache):
    folder = cache / "downloads"
    return [p.name for p in folder.iterdir() if p.suffix != ".lock"]  # held meanwhile


def test_the_archive_is_fetched_once_and_then_not_even_the_network_is_needed(
    tmp_path, host, cache, heard
):
    stream = open_stream("seq-cifar10", report=heard)
    assert stream.counts == (70, 10)
    assert leftovers(cache) == [NAME]
    size = (tmp_path / "host" / NAME).stat().st_size
    assert [(d, t) for what, d, t in heard if what == f"downloading {NAME}"][-1] == (size, size)
    by_hand = open_stream("seq-cifar10", data=tmp_path / "host")
    assert by_hand.fingerprint == stream.fingerprint
    host.shutdown()
    assert open_stream("seq-cifar10").fingerprint == stream.fingerprint
    assert open_stream("seq-cifar10", image_size=16).shape == (3, 16, 16)
    assert Quiet.asked == [f"/{NAME}"]


def test_a_downloaded_archive_is_decoded_again_without_the_network(host, cache):
    before = open_stream("seq-cifar10").fingerprint
    shutil.rmtree(cache / "images")
    assert open_stream("seq-cifar10").fingerprint == before
    assert len(Quiet.asked) == 1


@pytest.mark.fault
def test_a_download_that_was_damaged_later_is_fetched_again(host, cache, warned):
    before = open_stream("seq-cifar10").fingerprint
    shutil.rmtree(cache / "images")
    (cache / "downloads" / NAME).write_bytes(b"damaged")
    assert open_stream("seq-cifar10", warn=warned.append).fingerprint == before
    assert len(Quiet.asked) == 2
    assert [NAME in text for text in warned] == [True]


def test_a_mirror_takes_the_place_of_the_official_folder(host, monkeypatch):
    publish_at(monkeypatch, url="http://127.0.0.1:9/none")
    monkeypatch.setenv("BNT_MIRROR", f"{host.url}/")
    assert open_stream("seq-cifar10").counts == (70, 10)


def fails(*parts):
    with pytest.raises(UserError) as caught:
        open_stream("seq-cifar10")
    message = str(caught.value)
    assert "\n" not in message
    assert "0x" not in message
    assert message.endswith("(data)")
    for part in parts:
        assert part in message, message


@pytest.mark.fault
def test_a_wrong_hash_is_refused_and_nothing_is_kept(host, cache, monkeypatch):
    real = cifar.CIFAR_10.md5
    publish_at(monkeypatch, md5="0" * 32)
    fails(NAME, real, "0" * 32)
    assert leftovers(cache) == []
    assert list((cache / "images").iterdir()) == []


@pytest.mark.fault
def test_a_host_that_is_down_is_named(host, cache, monkeypatch):
    monkeypatch.setenv("BNT_MIRROR", "http://127.0.0.1:9")
    fails(f"http://127.0.0.1:9/{NAME}", "Connection refused", "BNT_MIRROR")
    assert leftovers(cache) == []


@pytest.mark.fault
def test_a_missing_file_on_the_host_is_told(host, monkeypatch):
    monkeypatch.setenv("BNT_MIRROR", f"{host.url}/elsewhere")
    fails("404", f"/elsewhere/{NAME}")


@pytest.mark.fault
def test_an_address_that_is_none_is_told(host, monkeypatch):
    monkeypatch.setenv("BNT_MIRROR", "no address")
    fails("no address/")


@pytest.mark.fault
def test_a_broken_connection_leaves_nothing(host, cache, monkeypatch):
    broken = serve(Broken)
    monkeypatch.setenv("BNT_MIRROR", f"http://127.0.0.1:{broken.server_port}")
    fails("cannot download")
    assert leftovers(cache) == []
    broken.shutdown()
    broken.server_close()


@pytest.mark.fault
def test_an_endless_download_is_given_up(host, cache, monkeypatch):
    monkeypatch.setattr(download, "LARGEST", 1000)
    fails("goes on after 1,000 bytes")
    assert leftovers(cache) == []


@pytest.mark.fault
def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(host, cache):
    def interrupt(what, done, total):
        if what.startswith("downloading"):
            assert leftovers(cache) == [f"{NAME}.partial"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_stream("seq-cifar10", report=interrupt)
    assert leftovers(cache) == []
    assert open_stream("seq-cifar10").counts == (70, 10)


@pytest.mark.fault
def test_what_a_killed_download_left_is_removed(host, cache):
    downloads = cache / "downloads"
    downloads.mkdir(parents=True)
    for name in (NAME, "tiny-imagenet-200.zip"):
        (downloads / f"{name}.partial").write_bytes(b"half")
    open_stream("seq-cifar10")
    assert leftovers(cache) == [NAME]


@pytest.mark.fault
def test_a_full_disk_is_not_blamed_on_the_network(host, cache, monkeypatch):
    monkeypatch.setattr("pooch.core.temporary_file", lambda path: nullcontext("/dev/full"))
    with pytest.raises(UserError, match=r"cannot write .*downloads: No space left"):
        open_stream("seq-cifar10")
    assert leftovers(cache) == []


@pytest.mark.fault
def test_a_connection_that_breaks_once_is_tried_again(tmp_path, host, monkeypatch, heard):
    class BreaksOnce(Quiet):
        def do_GET(self):
            if Quiet.asked:
                return super().do_GET()
            Quiet.asked.append(self.path)
            return Broken.do_GET(self)

    flaky = serve(partial(BreaksOnce, directory=tmp_path / "host"))
    monkeypatch.setenv("BNT_MIRROR", f"http://127.0.0.1:{flaky.server_port}")
    monkeypatch.setattr(download, "RETRIES", 1)
    assert open_stream("seq-cifar10", report=heard).counts == (70, 10)
    assert len(Quiet.asked) == 2
    size = (tmp_path / "host" / NAME).stat().st_size
    downloads = [(done, total) for what, done, total in heard if what.startswith("downloading")]
    assert downloads[0] == (65_536, 1_000_000)
    assert downloads[-1] == (size, size)
    assert all(done <= total for done, total in downloads)
    flaky.shutdown()
    flaky.server_close()


def test_a_download_says_nothing_on_the_terminal(host, capfd):
    open_stream("seq-cifar10")
    assert capfd.readouterr() == ("", "")


def test_every_official_archive_is_known_by_its_published_hash():
    published = (cifar.CIFAR_10, cifar.CIFAR_100, tiny_imagenet.TINY_IMAGENET)
    assert {archive.archive: archive.md5 for archive in published} == {
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
        "tiny-imagenet-200.zip": "90528d7ca1a48142e341f4ef8d21d0de",
    }
    for archive in published:
        assert archive.url.endswith(f"/{archive.archive}")
