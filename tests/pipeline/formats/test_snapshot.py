"""A snapshot's bytes. Directories: test_directory.py; the parallel writer: sources/test_zookeeper_sink.py."""

import zlib
from pathlib import Path

import pytest

from codec import snapshot_file
from codec.jute import from_text
from codec.seal import sealed_tail
from codec.snapshot_file import pack_digest, pack_head, pack_last_zxid, pack_node
from pipeline.formats import snapshot
from pipeline.formats.compression import Buffer, BytesSource
from pipeline.formats.errors import BadFile
from pipeline.formats.snapshot import Nodes, SnapshotReader, check_seal
from pipeline.table import AclRow, SessionRow
from tests.pipeline.trees import SAMPLES, node, write_snapshot

ROOT = node("/", 0)
SAMPLE = SAMPLES / "zk39-plain" / "version-2" / "snapshot.1f3"


class Dripping:
    """A source that gives a byte at a time."""

    def __init__(self, raw: bytes) -> None:
        self.buffer: Buffer = b""
        self.base = 0
        self._rest = raw

    def more(self, position: int) -> bool:
        if not self._rest:
            return False
        self.buffer = self.buffer[position:] + self._rest[:1]
        self.base += position
        self._rest = self._rest[1:]
        return True


def runs(reader: SnapshotReader) -> list[Nodes]:
    found = [reader.nodes()]
    while not found[-1].last:
        found.append(reader.nodes())
    return found


def whole_of(reader: SnapshotReader) -> list[Nodes]:
    reader.head()
    return runs(reader)


def hop_over(reader: SnapshotReader) -> list[int]:
    reader.head()
    return reader.hop((), (), lambda *_: None, 500)


def test_a_snapshot_reads_alike_whole_and_byte_by_byte(tmp_path: Path) -> None:
    nodes = [ROOT, node("/a", data=None, acl=(AclRow(1, "ip", "10.0.0.1"),)), node("/a/b", data=b"12345")]
    raw = write_snapshot(tmp_path, 1, nodes, [SessionRow(7, 8)]).read_bytes()
    found = []
    for source in (BytesSource(raw), Dripping(raw)):
        reader = SnapshotReader(source, "f")
        head = reader.head()
        assert (head.sessions, dict(head.acls)) == ((SessionRow(7, 8),), {1: nodes[1].acl})
        parts = runs(reader)
        found.append(
            [(path, data) for part in parts for path, data in zip(part.paths, part.data, strict=True)]
        )
    assert found[0] == found[1] == [(b"", b""), (b"/a", None), (b"/a/b", b"12345")]


def test_walking_over_nodes_finds_the_same_places_byte_by_byte(tmp_path: Path) -> None:
    nodes = [ROOT, *(node(f"/{number}", data=bytes(number)) for number in range(20))]
    raw = write_snapshot(tmp_path, 1, nodes).read_bytes()
    places = [hop_over(SnapshotReader(source, "f")) for source in (BytesSource(raw), Dripping(raw))]
    assert places[0] == places[1]
    assert len(places[0]) == 5
    assert hop_over(SnapshotReader(BytesSource(SAMPLE.read_bytes()), "f"))[-1] == check_seal(str(SAMPLE)).end


def test_every_cut_is_told(tmp_path: Path) -> None:
    whole = write_snapshot(tmp_path, 1, [ROOT, node("/a", acl=(AclRow(1, "ip", "x"),))], [SessionRow(7, 8)])
    raw = whole.read_bytes()
    nodes = raw[: raw.index(snapshot_file.END, 100) + 4]
    for cut in range(len(nodes)):
        reader = SnapshotReader(BytesSource(raw[:cut]), "f")
        with pytest.raises(BadFile, match=r"f, byte \d+: ends within"):
            whole_of(reader)


def test_every_flipped_bit_breaks_the_seal(tmp_path: Path) -> None:
    file = write_snapshot(tmp_path, 1, [ROOT, node("/a")])
    raw = file.read_bytes()
    for position in range(0, len(raw), 3):
        file.write_bytes(raw[:position] + bytes((raw[position] ^ 0x10,)) + raw[position + 1 :])
        with pytest.raises(BadFile, match=r"no snapshot|no seal|checksum"):
            check_seal(str(file))


@pytest.mark.parametrize(
    ("trailers", "digest", "last_zxid"),
    [
        ([], None, None),
        ([pack_digest(9, -5)], (9, -5), None),
        ([pack_digest(0, 0)], None, None),
        ([pack_last_zxid(8)], None, 8),
        ([pack_digest(9, -5), pack_last_zxid(8)], (9, -5), 8),
    ],
)
def test_trailers_are_told_by_their_length(
    tmp_path: Path, trailers: list[bytes], digest: tuple[int, int] | None, last_zxid: int | None
) -> None:
    file = write_snapshot(tmp_path, 1, [ROOT], trailers=trailers)
    checked = check_seal(str(file))
    assert (checked.digest, checked.last_zxid) == (digest, last_zxid)
    assert checked.size == file.stat().st_size
    assert checked.end is not None
    assert file.read_bytes()[checked.end :].startswith(snapshot_file.END)


def test_a_trailer_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    file = write_snapshot(tmp_path, 1, [ROOT], trailers=[b"a digest of version 1 is text"])
    assert check_seal(str(file)).digest is None


def test_cesu_8_in_an_acl_reads_as_the_character_that_was_meant() -> None:
    acl = (AclRow(1, "digest", "\U0001f600:x"),)
    plain = pack_head([], {1: acl})
    old = plain.replace("\U0001f600".encode(), from_text("\U0001f600"))
    old = old.replace(b"\0\0\0\x06\xf0", b"\0\0\0\x08\xf0").replace(b"\0\0\0\x06\xed", b"\0\0\0\x08\xed")
    assert b"\xed\xa0\xbd\xed\xb8\x80" in old
    for raw in (plain, old):
        assert SnapshotReader(BytesSource(raw), "f").head().acls == {1: acl}


def test_numbers_that_cannot_be_are_errors() -> None:
    head = pack_head([], {})
    for raw, reason in (
        (head[:16] + b"\xff" * 4, "-1 sessions"),
        (head[:16] + b"\x7f" + b"\xff" * 3, "2147483647 sessions"),
        (head[:20] + b"\x7f" + b"\xff" * 3, "2147483647 ACLs"),
        (head + b"\xff\xff\xff\xfe", "path has length -2"),
        (head + b"\x7f" + b"\xff" * 3, "path has length 2147483647"),
        (head + b"\0\0\0\2/a\xff\xff\xff\xfe", "data have length -2"),
        (head + b"\0\0\0\2/a\x04\0\0\1", "data have length 67108865, and 67108864 is the most"),
    ):
        for walk in (whole_of, hop_over):
            reader = SnapshotReader(BytesSource(raw + bytes(100)), "f")
            with pytest.raises(BadFile, match=reason):
                walk(reader)


def test_a_path_that_is_no_text_is_an_error() -> None:
    assert snapshot.path_text(b"", "f", 3) == "/"
    with pytest.raises(BadFile, match=r"f, byte 3: the path b'/\\xff' is no UTF-8"):
        snapshot.path_text(b"/\xff", "f", 3)
    with pytest.raises(BadFile, match="the path b'a' does not begin with a slash"):
        snapshot.path_text(b"a", "f", 3)


def test_names() -> None:
    assert snapshot.zxid_of("snapshot.1f4") == 0x1F4
    assert snapshot.zxid_of("snapshot.0001f4.gz") == 0x1F4
    assert snapshot.zxid_of("snapshot.x") is None
    assert snapshot.zxid_of("snapshot.1_0") is None
    assert snapshot.zxid_of("log.1") is None


def test_a_real_snapshot_is_written_as_it_was() -> None:
    """Byte for byte, with the ids that the server gave to its ACLs."""
    raw = SAMPLE.read_bytes()
    reader = SnapshotReader(BytesSource(raw), "f")
    head = reader.head()
    parts = [pack_head(head.sessions, head.acls).replace(b"\xff" * 8, raw[8:16], 1)]
    for part in runs(reader):
        for path, data, fixed in zip(part.paths, part.data, part.fixed, strict=True):
            fields = {name: int(fixed[name]) for name in snapshot.FIXED.names or ()}
            number = fields.pop("acl")
            row = node(path.decode() or "/", data=data, **fields)
            parts.append(pack_node(row.path, row, number))
    parts.append(snapshot_file.END)
    written = b"".join(parts)
    checked = check_seal(str(SAMPLE))
    assert checked.digest is not None
    assert checked.last_zxid is not None
    trailers = [pack_digest(*checked.digest), pack_last_zxid(checked.last_zxid)]
    assert written + sealed_tail(zlib.adler32(written), trailers) == raw
