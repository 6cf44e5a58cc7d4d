"""Compressed files, whole and in parts."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats.compression import SNAPPY_HEADER, Compressor, chunks, codec_of, opened
from pipeline.formats.errors import BadFile
from tests.table import one_by_one

NAMES = ["snapshot.1", "snapshot.1.gz", "snapshot.1.snappy"]


def write(file: Path, parts: list[bytes]) -> None:
    """Each part compressed alone, as the sink does."""
    codec = codec_of(file.name)
    raw = SNAPPY_HEADER if codec == "snappy" else b""
    for part in parts:
        compressor = Compressor(codec)
        raw += compressor.add(part) + compressor.end()
    file.write_bytes(raw)


@pytest.mark.parametrize("name", NAMES)
@given(st.lists(st.binary(max_size=50).map(lambda raw: raw * 2000), max_size=4))
def test_parts_read_back_as_one(
    tmp_path_factory: pytest.TempPathFactory, name: str, parts: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("files") / name
    write(file, parts)
    whole = b"".join(parts)
    assert b"".join(chunks(str(file))) == whole
    with opened(str(file)) as source:
        assert source.base == 0
        taken = b""
        while True:
            taken += bytes(source.buffer[:])
            if not source.more(len(source.buffer)):
                break
            assert source.base == len(taken)
        assert taken == whole


def test_snappy_streams_behind_one_another(tmp_path: Path) -> None:
    write(tmp_path / "a.snappy", [b"one"])
    raw = (tmp_path / "a.snappy").read_bytes()
    (tmp_path / "b.snappy").write_bytes(raw + raw)
    assert b"".join(chunks(str(tmp_path / "b.snappy"))) == b"oneone"


@pytest.mark.long
def test_a_file_that_swells(tmp_path: Path) -> None:
    """Output is taken in pieces, whatever the input."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(30_000_000)))
    sizes = [len(chunk) for chunk in chunks(str(tmp_path / "a.gz"))]
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 4 << 20


@pytest.mark.long
def test_what_is_longer_than_many_chunks_is_not_copied_with_each(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(60 << 20), 1))
    sizes = []
    with opened(str(tmp_path / "a.gz")) as source:
        while source.more(0):
            sizes.append(len(source.buffer) >> 20)
    assert (len(sizes), sizes[-1]) == (5, 60)


@one_by_one(
    ("name", "raw", "reason"),
    [
        ("a.gz", b"no gzip", "is no proper gzip file"),
        ("a.gz", gzip.compress(b"abc", mtime=0)[:-3], "does not end"),
        ("a.gz", gzip.compress(b"abc", mtime=0) + b"more", "is no proper gzip file"),
        ("a.snappy", b"no snappy stream at all", "byte 0: is no snappy-java stream"),
        ("a.snappy", SNAPPY_HEADER + b"\0\0\0\x09abc", "is cut short"),
        ("a.snappy", SNAPPY_HEADER + b"\0\0", "is cut short"),
        ("a.snappy", SNAPPY_HEADER + b"\xff\xff\xff\xff", "is cut short"),
        ("a.snappy", SNAPPY_HEADER + b"\0\0\0\3\xff\xff\xff", "has a broken snappy block"),
        ("a.snappy", SNAPPY_HEADER + b"\0\0\0\6\xff\xff\xff\xff\x0fa", "6 bytes that announce 4294967295"),
    ],
)
def test_what_does_not_decompress(tmp_path: Path, name: str, raw: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(BadFile, match=reason):
        list(chunks(str(tmp_path / name)))
