"""What entries say, both ways, with Java's strings."""

import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import OpCode
from codec.jute import INT, from_text
from pipeline.formats import directory, log, transactions
from pipeline.formats.compression import BytesSource
from pipeline.formats.errors import BadFile
from pipeline.formats.log import Entry
from pipeline.formats.replay import touched
from pipeline.formats.text import decode
from pipeline.table import AclRow, TransactionRow
from schema.znode import CONTAINER_OWNER, ttl_owner
from tests.pipeline.trees import NAMES, SAMPLES, transaction
from tests.table import one_by_one

ints = st.integers(-(1 << 31), (1 << 31) - 1)
paths = st.text(st.characters(codec="utf-8", max_codepoint=0xD7FF), max_size=8).map(lambda name: "/" + name)
buffers = st.none() | st.binary(max_size=9)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
acls = st.none() | st.lists(st.builds(AclRow, ints, texts, texts), max_size=2).map(tuple)
counters = st.none() | st.integers(0, (1 << 31) - 1)
SESSION = 0x1000_0000_0001


Rows = st.SearchStrategy[TransactionRow]


def of(*kinds: OpCode, path: Any = paths, **fields: Any) -> Rows:
    """Transactions of some kinds; a field is a value or a strategy."""
    given = {
        name: field if isinstance(field, st.SearchStrategy) else st.just(field)
        for name, field in fields.items()
    }
    return st.builds(transaction, st.just(1), st.sampled_from(kinds), path, **given)


no_path = st.none()
made: dict[str, Any] = {"data": buffers, "acl": acls, "parent_cversion": counters}
in_multis = st.one_of(
    of(OpCode.CREATE, OpCode.CREATE2, **made, owner=st.sampled_from([0, SESSION])),
    of(OpCode.CREATE_CONTAINER, **made, owner=CONTAINER_OWNER),
    of(OpCode.CREATE_TTL, acl=acls, owner=st.integers(0, (1 << 40) - 1).map(ttl_owner)),
    of(OpCode.DELETE, OpCode.DELETE_CONTAINER),
    of(OpCode.SET_DATA, data=buffers, version=ints),
    of(OpCode.CHECK, version=ints),
    of(OpCode.ERROR, path=no_path, error=ints),
)
alone = st.one_of(
    in_multis.filter(lambda row: row.type != OpCode.CHECK),
    of(OpCode.SET_ACL, acl=acls, version=ints),
    of(OpCode.CREATE_SESSION, path=no_path, timeout_ms=ints),
    of(OpCode.CLOSE_SESSION, path=no_path, paths=st.none() | st.lists(paths, max_size=3).map(tuple)),
    of(OpCode.MULTI, path=no_path),
)
multis = st.lists(in_multis, min_size=1, max_size=4).map(
    lambda rows: [row._replace(part=part) for part, row in enumerate(rows)]
)


@given(alone.map(lambda row: [row]) | multis, st.none() | st.integers(-(1 << 63), (1 << 63) - 1))
def test_transactions_read_back(rows: list[TransactionRow], digest: int | None) -> None:
    rows = [row._replace(zxid=9, session_id=SESSION, cxid=-1, time=5, file="name", offset=77) for row in rows]
    rows[-1] = rows[-1]._replace(digest=digest)
    entry = Entry(77, transactions.pack(rows))
    assert list(transactions.rows(entry, "f", "name")) == rows
    assert transactions.digest_of(entry, "f") == digest


@one_by_one("name", NAMES)
def test_every_transaction_of_a_real_server_is_packed_as_it_was(name: str) -> None:
    for file in directory.files(str(SAMPLES / name))[1]:
        source = BytesSource(Path(file).read_bytes())
        for entry in log.entries(source, file, log.HEADER_SIZE):
            rows = list(transactions.rows(entry, file, ""))
            # The parts of a multi that failed may carry surplus bytes.
            if not any(row.part >= 0 and row.type == OpCode.ERROR for row in rows):
                assert transactions.pack(rows) == entry.body


HEADER = struct.pack(">qiqqi", SESSION, 1, 9, 5, OpCode.CREATE)


@given(alone.map(lambda row: [row]) | multis, st.data())
def test_a_record_cut_short_is_an_error_or_an_older_form(
    rows: list[TransactionRow], data: st.DataObject
) -> None:
    body = transactions.pack(rows)
    cut = data.draw(st.integers(0, len(body) - 1))
    with contextlib.suppress(BadFile):
        list(transactions.rows(Entry(7, body[:cut]), "f", "f"))


def test_a_create_of_old_servers_has_no_counter() -> None:
    row = transaction(9, OpCode.CREATE, "/a", data=b"", owner=0, parent_cversion=None)
    (read,) = transactions.rows(Entry(0, transactions.pack([row])[:-4]), "f", "")
    assert read == row


def test_the_end_of_a_session_without_paths_may_be_followed_by_a_digest() -> None:
    row = transaction(9, OpCode.CLOSE_SESSION, digest=5)
    (read,) = transactions.rows(Entry(0, transactions.pack([row])), "f", "")
    assert (read.paths, read.digest) == (None, 5)


@one_by_one(
    ("row", "reason"),
    [
        (transaction(9, OpCode.CHECK, "/a"), "unknown type 13"),
        (transaction(9, OpCode.SET_ACL, "/a", part=0), "unknown type 7"),
        (transaction(9, OpCode.DELETE), "a path is null"),
        (transaction(9, OpCode.CLOSE_SESSION, paths=("/a", "")), "path '' does not begin with /"),
        (transaction(9, OpCode.CREATE, "a", data=b"", owner=0), "path 'a' does not begin with /"),
        (transaction(9, OpCode.DELETE, "a", part=0), "path 'a' does not begin with /"),
    ],
)
def test_what_no_server_writes_is_an_error(row: TransactionRow, reason: str) -> None:
    with pytest.raises(BadFile, match=rf"f, byte 3: .*{reason}"):
        list(transactions.rows(Entry(3, transactions.pack([row])), "f", ""))


@one_by_one(("part", "kind"), [(-1, OpCode.PING), (0, OpCode.MULTI), (0, OpCode.RECONFIG)])
def test_an_unknown_type_is_an_error(part: int, kind: OpCode) -> None:
    body = transactions.pack([transaction(9, OpCode.DELETE_CONTAINER, "/a", part=part)])
    delete, other = INT.pack(OpCode.DELETE_CONTAINER), INT.pack(kind)
    assert body.count(delete) == 1
    with pytest.raises(BadFile, match=f"f, byte 3: .*unknown type {kind}"):
        list(transactions.rows(Entry(3, body.replace(delete, other)), "f", ""))


@one_by_one("kind", OpCode)
def test_all_types_that_are_read_are_written_too(kind: OpCode) -> None:
    with contextlib.suppress(BadFile):
        transactions.kind_of(Entry(3, HEADER[:-4] + INT.pack(kind)), "f")
        transactions.pack([transaction(9, kind, "/a")])


@pytest.mark.parametrize("part", [-1, 0])
@pytest.mark.parametrize("path", [None, "", "a"])
def test_what_touches_no_node_is_an_error(path: str | None, part: int) -> None:
    row = transaction(9, OpCode.CREATE, path, part=part, data=b"", owner=0)
    with pytest.raises(BadFile, match="f, byte 3: the transaction in this entry is broken: "):
        touched([(Entry(3, transactions.pack([row])), "f")])


@given(st.text(st.characters(codec="utf-8")))
def test_both_encodings_are_the_same_text(text: str) -> None:
    assert decode(text.encode()) == text
    assert decode(from_text(text)) == text


@given(st.binary(max_size=20))
def test_no_bytes_fail_and_all_text_can_be_written(raw: bytes) -> None:
    assert decode(raw).encode().decode() == decode(raw)


def test_half_a_character_is_replaced() -> None:
    assert decode(b"a\xed\xa0\xbdb") == "a\ufffdb"
    assert decode(b"\xff") == "\ufffd"
