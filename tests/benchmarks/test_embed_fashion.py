"""What `benchmarks/embed_fashion.py` accepts as official, and what it cuts out."""

import gzip
import hashlib
import io

import numpy as np
import pytest

import embed_fashion
from bntricks.streams.sources.fashion import TEST, TRAIN

NAME = TRAIN[1]
CONTENT = b"labels"


@pytest.fixture
def published(monkeypatch):
    """A small file packed as its authors would, with name and time, whose md5 is known."""
    packed = io.BytesIO()
    at = embed_fashion.PACKED_AT[NAME]
    with gzip.GzipFile(NAME, "wb", fileobj=packed, mtime=at) as file:
        file.write(CONTENT)
    md5 = hashlib.md5(packed.getvalue()).hexdigest()
    monkeypatch.setitem(embed_fashion.MD5, NAME, md5)
    return packed.getvalue()


def stripped(packed):
    """The same, without name and with the time of another day, as Debian packages have it."""
    name = len(NAME) + 1
    return packed[:3] + b"\0" + b"\xed\x0a\xda\x5e" + packed[8:10] + packed[10 + name :]


def test_published_files_are_official(published, tmp_path):
    (tmp_path / f"{NAME}.gz").write_bytes(published)
    assert embed_fashion.official(tmp_path, NAME) == CONTENT


def test_a_stripped_header_is_restored_to_the_published_bits(published, tmp_path):
    bare = stripped(published)
    assert gzip.decompress(bare) == CONTENT
    assert embed_fashion.with_name(bare, NAME) == published
    (tmp_path / f"{NAME}.gz").write_bytes(bare)
    assert embed_fashion.official(tmp_path, NAME) == CONTENT


def test_other_content_is_refused_with_the_md5_it_should_have(published, tmp_path):
    (tmp_path / f"{NAME}.gz").write_bytes(gzip.compress(b"other labels", mtime=0))
    with pytest.raises(SystemExit, match=rf"{NAME}.gz is not .*{embed_fashion.MD5[NAME]}"):
        embed_fashion.official(tmp_path, NAME)


def test_the_first_of_each_class_are_taken_class_after_class():
    y = np.array([9, 2, 1, 1, 6, 1, 4, 6, 5, 7, 0, 3, 8, 2], np.uint8)
    places = embed_fashion.first_of_each_class(y, 2).tolist()
    assert places == [10, 2, 3, 1, 13, 11, 6, 8, 4, 7, 9, 12, 0]


def test_the_cut_is_written_with_the_list_of_its_origins(tmp_path, monkeypatch):
    official, embedded = tmp_path / "official", tmp_path / "embedded"
    official.mkdir()
    embedded.mkdir()
    rng = np.random.default_rng(0)
    for names, size in ((TRAIN, 40), (TEST, 30)):
        y = np.arange(size, dtype=np.uint8)[::-1] % 10
        x = rng.integers(0, 256, (size, 28, 28), dtype=np.uint8)
        for name, values in zip(names, (x, y), strict=True):
            packed = embed_fashion.idx(values)
            (official / f"{name}.gz").write_bytes(packed)
            monkeypatch.setitem(embed_fashion.MD5, name, hashlib.md5(packed).hexdigest())
    monkeypatch.setattr(embed_fashion, "EMBEDDED", embedded)
    monkeypatch.setattr("sys.argv", ["embed_fashion.py", str(official)])
    embed_fashion.main()
    rows = (embedded / "origins.csv").read_text().splitlines()
    assert rows[0] == "part,class,index,digest"
    assert [row.rsplit(",", 1)[0] for row in rows[1:6]] == [
        *("train,0,9", "train,0,19", "train,0,29", "train,0,39"),
        "train,1,8",
    ]
    written = gzip.decompress((embedded / f"{TEST[0]}.gz").read_bytes())[16:]
    last = hashlib.sha256(written[-784:]).hexdigest()[:16]
    assert written[-784:] == x[20].tobytes()
    assert rows[-1] == f"test,9,20,{last}"
