"""Archives are somebody else's: nothing of them reaches the disk, and nothing huge the memory."""

import gzip
import io
import shutil
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from bntricks.errors import UserError
from bntricks.streams import open_stream
from bntricks.streams.files import archive
from bntricks.streams.sources import cifar

pytestmark = pytest.mark.fault


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def everything(tmp_path, cache):
    return {p for p in tmp_path.rglob("*") if cache not in (p, *p.parents)}


def fails(data, *parts, stream="seq-cifar10"):
    with pytest.raises(UserError) as caught:
        open_stream(stream, data=data)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


@pytest.fixture
def files(tmp_path, official):
    """The members of a good CIFAR-10 archive."""
    folder = official.cifar10(tmp_path / "good")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def pack(path, files, **extra):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            add(tar, f"cifar-10-batches-bin/{name}", content)
        for name, content in extra.items():
            add(tar, name, content)
    return path


def test_members_with_paths_outside_are_never_written(tmp_path, files, cache):
    evil = ("../evil.bin", str(tmp_path / "evil.bin"), "cifar-10-batches-bin/../../evil.bin")
    path = pack(tmp_path / "cifar-10-binary.tar.gz", files, **dict.fromkeys(evil, b"evil"))
    before = everything(tmp_path, cache)
    assert open_stream("seq-cifar10", data=path).counts == (70, 10)
    assert everything(tmp_path, cache) == before
    assert not any("evil" in p.name for p in cache.rglob("*"))


def test_a_zip_with_paths_outside_is_never_unpacked(tmp_path, tiny, official, cache):
    path = official.zip(shutil.copytree(tiny, tmp_path / "tiny-imagenet-200"))
    image = official.jpeg(9)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr("../evil.JPEG", image)
        packed.writestr("tiny-imagenet-200/train/n10000014/images/../../evil.JPEG", image)
        packed.writestr("tiny-imagenet-200/train/../../evil/images/a.JPEG", image)
    before = everything(tmp_path, cache)
    assert open_stream("seq-tiny-imagenet", data=path).counts == (400, 200)
    assert everything(tmp_path, cache) == before


def test_a_link_is_not_taken_for_a_file(tmp_path, files):
    secret = tmp_path / "secret"
    secret.write_bytes(files.pop("test_batch.bin"))
    path = pack(tmp_path / "cifar-10-binary.tar", files)
    with tarfile.open(path.with_suffix(".tar.gz"), "w:gz") as tar:
        for name, content in files.items():
            add(tar, f"cifar-10-batches-bin/{name}", content)
        link = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(link)
    fails(path.with_suffix(".tar.gz"), "lacks cifar-10-batches-bin/test_batch.bin")


def test_an_absurd_size_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = 10**12
    with gzip.open(path, "wb") as file:
        file.write(member.tobuf() + bytes(10_000))
    fails(path, "data_batch_1.bin", "1,000,000,000,000 bytes", "200,000,000")


def test_a_tar_that_swells_between_its_members_is_refused(tmp_path, files, monkeypatch):
    monkeypatch.setattr(cifar, "FILE_LIMIT", 400_000)
    path = pack(tmp_path / "cifar-10-binary.tar.gz", files, padding=bytes(1_000_000))
    fails(path, "unpacks to more than 400,000 bytes")


def test_a_tar_whose_headers_swell_is_refused(tmp_path, files, monkeypatch):
    monkeypatch.setattr(cifar, "FILE_LIMIT", 400_000)
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        member.pax_headers = {"comment": "x" * 1_000_000}
        tar.addfile(member)
    fails(path, "unpacks to more than 400,000 bytes")


def test_a_tar_of_countless_members_is_refused(tmp_path, files, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBERS", 10)
    path = pack(tmp_path / "cifar-10-binary.tar.gz", files, **{f"{k}": b"" for k in range(10)})
    fails(path, "more than 10 members")


def test_a_huge_jpeg_in_a_zip_is_refused(tmp_path, tiny, official):
    path = official.zip(shutil.copytree(tiny, tmp_path / "tiny-imagenet-200"))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("tiny-imagenet-200/train/n10000014/images/bomb.JPEG", bytes(5_000_001))
    fails(path, "bomb.JPEG", "5,000,001 bytes", stream="seq-tiny-imagenet")


def lie_about_the_size(path, name, size):
    """Change what the directory of a zip says about a member."""
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(name.encode()) - 46
    assert raw[entry : entry + 4] == b"PK\x01\x02"
    raw[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_zip_that_lies_about_a_size_is_not_inflated_past_the_limit(tmp_path, method):
    path, limit = tmp_path / "bomb.zip", 100_000
    with zipfile.ZipFile(path, "w", method) as packed:
        packed.writestr("top/bomb.JPEG", bytes(100 * limit))
    lie_about_the_size(path, "top/bomb.JPEG", limit)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"cannot read the archive .*bomb"):
            archive.Zip(path, "top").read("bomb.JPEG", limit)
        assert tracemalloc.get_traced_memory()[1] < 10 * limit
    finally:
        tracemalloc.stop()


def test_a_huge_file_in_a_folder_is_refused(tmp_path, official, monkeypatch):
    monkeypatch.setattr(cifar, "FILE_LIMIT", 50_000)
    official.cifar10(tmp_path)
    fails(tmp_path, "data_batch_1.bin", "92,190 bytes", "50,000")


@pytest.mark.parametrize("name", ["cifar-10-binary.tar.gz", "data_batch_1.bin"])
def test_a_file_without_end_is_refused_before_it_is_read(tmp_path, official, name):
    folder = official.cifar10(tmp_path)
    path = folder / name if name.endswith(".bin") else tmp_path / name
    with path.open("wb") as file:
        file.truncate(300 << 30)  # a hole: it takes no room on disk
    fails(path if path.suffix == ".gz" else tmp_path, name, "322,122,547,200 bytes")


CONTENT = {f"{k}": bytes(range(256)) * 20 + bytes([k]) for k in range(3)}


def read_tar(path):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in CONTENT.items():
            add(tar, f"top/{name}", content)
    return lambda: archive.Tar(path, "top").read_all(list(CONTENT), 100_000)


def read_zip(path, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as packed:
        for name, content in CONTENT.items():
            packed.writestr(f"top/{name}", content)

    def read():
        opened = archive.Zip(path, "top")
        return {name: opened.read(name, 10_000) for name in CONTENT}

    return read


@pytest.mark.parametrize("reader", [read_tar, read_zip])
@settings(max_examples=100, deadline=None, suppress_health_check=[*HealthCheck])
@given(draw=st.data())
def test_no_damage_to_an_archive_is_read_as_if_it_were_whole(tmp_path, reader, draw):
    path = tmp_path / "archive"
    read = reader(path)
    assert read() == CONTENT
    raw = bytearray(path.read_bytes())
    start = draw.draw(st.integers(0, len(raw) - 1))
    end = draw.draw(st.integers(start, start + 8))
    raw[start:end] = draw.draw(st.binary(max_size=8))
    path.write_bytes(raw)
    with suppress(UserError):
        assert read() == CONTENT  # only a date, say


def test_a_changed_byte_in_a_tar_is_noticed_by_the_checksum_at_its_end(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=0) as tar:
        add(tar, "top/data", b"the one byte: 1" + bytes(20_000))
    assert archive.Tar(path, "top").read_all(["data"], 100_000)
    path.write_bytes(path.read_bytes().replace(b"byte: 1", b"byte: 2"))
    with pytest.raises(UserError, match=r"cannot read the archive .*CRC"):
        archive.Tar(path, "top").read_all(["data"], 100_000)


@pytest.mark.parametrize("keep", [0, 50, 5_000])
def test_a_damaged_tar_is_named(tmp_path, files, keep):
    path = pack(tmp_path / "cifar-10-binary.tar.gz", files)
    path.write_bytes(path.read_bytes()[:keep])
    fails(path, "cifar-10-binary.tar.gz", "fetch")


def test_a_damaged_zip_is_named(tmp_path):
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"PK" + bytes(1000))
    fails(tmp_path, "tiny-imagenet-200.zip", "fetch it again", stream="seq-tiny-imagenet")


def test_a_zip_whose_bytes_changed_is_named(tmp_path, tiny, official):
    path = official.zip(shutil.copytree(tiny, tmp_path / "tiny-imagenet-200"))
    with zipfile.ZipFile(path) as packed:
        info = packed.getinfo("tiny-imagenet-200/wnids.txt")
    raw = bytearray(path.read_bytes())
    raw[info.header_offset + 30 + len(info.filename) + 40] ^= 255
    path.write_bytes(raw)
    fails(path, "tiny-imagenet-200.zip", stream="seq-tiny-imagenet")
