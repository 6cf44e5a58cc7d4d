"""What a followed ZooKeeper has changed: every value comes back, every cut is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.jute import OPEN_ACL
from schema.errors import BadValue
from schema.followed import (
    Counts,
    Followed,
    Lag,
    Sign,
    counts_of,
    decode_followed,
    decode_lag,
    decode_sign,
    encode_followed,
)
from schema.json_values import pack_json
from schema.pages import SessionValue
from schema.znode import Znode, stat_of
from tests.schema.strategies import LONGS, fields


def znode(number: int, data: bytes | None) -> Znode:
    return Znode(data, OPEN_ACL, 0, number, number + 1, number + 2, 3, 4, 5, 6, -1)


def plain(changes: Followed) -> list[object]:
    def nodes(found: object) -> list[object]:
        return [(path, fields(node)) for path, node in found]  # type: ignore[attr-defined]

    rest = [list(changes.deleted), list(changes.opened), list(changes.closed)]
    return [changes.after, changes.zxid, *map(nodes, changes.changed), *rest]


SAMPLE = Followed(
    5,
    9,
    ["/b/ä", "/b"],
    [("/a", znode(1, None)), ("/c", znode(2, b"data"))],
    [("/d", znode(3, b"other"))],
    [("/e", znode(4, None))],
    [("/", stat_of(znode(5, b"")))],
    [SessionValue(-7, 4000, bytes(range(16)), "")],
    [1, -2],
)
_paths = st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=5))
_nodes = st.dictionaries(st.sampled_from("abcd"), st.one_of(st.none(), st.binary(max_size=5))).map(
    lambda found: [(path, znode(ord(path), data)) for path, data in sorted(found.items())]
)


@given(_paths.filter(lambda paths: paths != [""]), st.tuples(_nodes, _nodes, _nodes, _nodes), st.lists(LONGS))
def test_everything_comes_back(
    deleted: list[str], changed: tuple[list[tuple[str, Znode]], ...], closed: list[int]
) -> None:
    nodes, data, acls, stats = changed
    changes = SAMPLE._replace(deleted=deleted, nodes=nodes, data=data, acls=acls, stats=stats, closed=closed)
    assert plain(decode_followed(encode_followed(changes))) == plain(changes)


def test_nothing_and_how_many() -> None:
    nothing = Followed(1, 2, [], [], [], [], [], [], [])
    assert plain(decode_followed(encode_followed(nothing))) == plain(nothing)
    assert counts_of(encode_followed(SAMPLE)) == Counts(5, 9, 2, 5, 1, 2)


def test_cut_and_lengthened_ones_are_refused() -> None:
    body = encode_followed(SAMPLE)
    for cut in range(len(body)):
        with pytest.raises(BadValue):
            decode_followed(body[:cut])
    with pytest.raises(BadValue):
        decode_followed(body + b"\0")
    with pytest.raises(BadValue, match="1 deleted paths instead of 2"):
        decode_followed(body.replace("/b/ä\0/b".encode(), "/b/ä./b".encode()))


@pytest.mark.parametrize("decode", [decode_lag, decode_sign])
def test_members_of_other_types_are_refused(decode: Callable[[bytes], Lag | Sign]) -> None:
    """Any other error would end a proxy that reads them."""
    with pytest.raises(BadValue, match="is wrong"):
        decode(pack_json({name: [] for name in (*Lag._fields, *Sign._fields)}))
