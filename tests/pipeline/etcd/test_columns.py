"""Pages made and read column by column are those of schema.pages, byte for byte."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batches import batch_of, rows_of
from pipeline.etcd import columns
from pipeline.table import AclRow, ZnodeRow
from proxy.state.digest import node_hash
from proxy.state.node import make_node
from schema.errors import BadValue
from schema.pages import decode_nodes, encode_nodes, page_header
from tests.pipeline.etcd.rows import batches, row, rows, shown, znode

_LONGS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
_INTS = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=8)
_ACLS = st.none() | st.lists(st.builds(AclRow, _INTS, _TEXTS, _TEXTS), max_size=3).map(tuple)
_PATHS = st.just("/") | st.text(
    st.characters(exclude_categories=["Cs", "Cc"], max_codepoint=0xFFFF), min_size=1, max_size=8
).map(lambda name: "/" + name)

znode_rows = st.builds(
    ZnodeRow, _PATHS, st.none() | st.binary(max_size=30), _ACLS, *(_LONGS,) * 5, *(_INTS,) * 3, _LONGS
)


@pytest.mark.long
@given(st.lists(znode_rows, min_size=1, max_size=20, unique_by=lambda row: row.path))
def test_pages_are_those_of_schema(given: list[ZnodeRow]) -> None:
    given.sort()
    batch = batch_of(given)
    page = encode_nodes([znode(row) for row in given])
    assert columns.encode(batch) == page
    assert list(rows_of(columns.decode(page))) == [shown(row) for row in given]
    assert columns.hashes(batch) == [
        node_hash(path, make_node(*node.fields())) for path, node in map(znode, given)
    ]


def test_a_slice_is_encoded_as_if_it_were_alone() -> None:
    acls = [None, (AclRow(1, "ip", "::1"),), (AclRow(31, "world", "anyone"), AclRow(2, "a", "b"))]
    given = [row(f"/n{n:03}", data=None if n % 5 == 0 else b"%d" % n, acl=acls[n % 3]) for n in range(60)]
    batch = batch_of(given)
    for start, length in ((0, 60), (7, 20), (59, 1)):
        some = given[start : start + length]
        page = encode_nodes([znode(row) for row in some])
        assert columns.encode(batch.slice(start, length)) == page


def test_a_server_without_utf8_sums_question_marks() -> None:
    batch = batch_of([row("/é"), row("/e")])
    narrow = columns.hashes(batch, ascii_only=True)
    assert narrow[0] == node_hash("/?", make_node(*znode(row("/é"))[1].fields()))
    assert narrow[1] == columns.hashes(batch)[1]


@pytest.mark.long
@pytest.mark.parametrize("size", [7, 1000])
def test_rows_in_any_order_become_sorted_pages(size: int) -> None:
    given = [row(f"/n{n:05}", data=random.Random(n).randbytes(300)) for n in range(5000)]
    random.Random(1).shuffle(given)
    made = list(columns.pages_of(batches(given, size), 1 << 20, target=20_000))
    assert len(made) > 20
    assert rows(part for _, part in made) == sorted(given)
    for page, part in made:
        paths = [path for path, _ in decode_nodes(page)]
        assert paths == sorted(paths) == part.column("path").to_pylist()
        assert page_header(page).count == part.num_rows
        assert len(page) < 60_000


def test_what_compresses_badly_is_divided_and_what_is_large_goes_alone() -> None:
    given = [row(f"/n{n}", data=random.Random(n).randbytes(200_000)) for n in range(9)]
    given.append(row("/large", data=random.Random(9).randbytes(1_400_000)))
    pages = [page for page, _ in columns.pages_of(batches(given), 1536 * 1024, target=4_000_000)]
    assert len(pages) > 2
    assert max(map(len, pages)) < 1536 * 1024
    assert sum(page_header(page).count for page in pages) == 10


def test_damage_is_refused() -> None:
    page = bytearray(columns.encode(batch_of([row("/a"), row("/b")])))
    for at in range(len(page)):
        page[at] ^= 0x55
        with pytest.raises(BadValue):
            columns.decode(bytes(page))
        page[at] ^= 0x55
    with pytest.raises(BadValue):
        columns.decode(bytes(page[:-1]))
    with pytest.raises(ValueError, match="NUL"):
        columns.encode(batch_of([row("/a\0b")]))
