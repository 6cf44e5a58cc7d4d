"""Pages of any size come back, in values that etcd takes; pieces that do not belong together are refused."""

import random
from base64 import b64encode

import pytest

from codec.jute import OPEN_ACL, Acl
from schema import compression
from schema.compression import wrap
from schema.errors import BadValue
from schema.pages import decode_nodes, encode_nodes, page_header, split_nodes
from schema.pieces import PIECE_FORMAT, VALUE_BYTES, Joiner, cut, join
from schema.znode import Znode
from tests.schema.damage import assert_all_damage_is_refused
from tests.schema.strategies import fields
from tests.table import one_by_one

_MIB = 1 << 20
_REQUEST = _MIB - 100  # what a client's request has room for


def _node(data: bytes, acl: tuple[Acl, ...] = OPEN_ACL) -> Znode:
    return Znode(data, acl, 0, 1, 1, 1, 1, 1, 0, 0, 0)


def _noise(size: int, seed: int = 0) -> str:
    """Text that compresses to three quarters at best."""
    return b64encode(random.Random(seed).randbytes(size * 3 // 4)).decode().replace("/", "-")


def _acl(size: int, seed: int = 0) -> tuple[Acl, ...]:
    return (Acl(31, "digest", f"u:{_noise(size, seed)}"),)


_LONG = f"/{_noise(_REQUEST)}"
_DATA = random.Random(1).randbytes(_REQUEST)
_TREES = {
    "a long path": [("/a", _node(b"")), (_LONG, _node(b"")), ("/zz", _node(b""))],
    "long paths that begin alike": [(f"{_LONG}/{number}", _node(b"")) for number in range(3)],
    "data and an ACL": [("/a", _node(_DATA, _acl(_REQUEST)))],
    "a long ACL": [("/a", _node(b"", _acl(5 * _MIB))), ("/b", _node(b""))],
    "many long ACLs": [(f"/a{number:03}", _node(b"", _acl(350_000, number))) for number in range(20)],
    "one long ACL of many": [
        (f"/a{number:03}", _node(b"", acl)) for acl in [_acl(350_000)] for number in range(9)
    ],
    "large data among small": [("/a", _node(b"")), ("/b", _node(_DATA)), ("/c", _node(b""))],
}


@one_by_one("nodes", _TREES.values(), ids=_TREES)
def test_whatever_the_znodes_are_each_value_is_one_that_etcd_takes(nodes: list[tuple[str, Znode]]) -> None:
    nodes = sorted(nodes)
    values = list(cut(split_nodes(nodes)))
    assert max(map(len, values)) <= VALUE_BYTES
    pages = list(join(values))
    found = [decode_nodes(page) for page in pages]
    assert [(path, fields(node)) for page in found for path, node in page] == [
        (path, fields(node)) for path, node in nodes
    ]
    for page, of_page in zip(pages, found, strict=True):
        header = page_header(page)
        # As readers compare them.
        assert header.first.encode() <= of_page[0][0].encode()
        assert header.last.encode() >= of_page[-1][0].encode()
        assert len(header.first) + len(header.last) < 3000


def test_no_page_is_larger_before_compression_than_readers_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_BODY", 3 * _MIB)
    acls = [(Acl(31, "digest", f"{number}:" + "x" * 350_000),) for number in range(100)]
    nodes = [(f"/a{number:03}", _node(b"", acl)) for number, acl in enumerate(acls)]
    pages = list(split_nodes(nodes))
    assert sum(page_header(page).count for page in pages) == 100
    assert sum(map(len, pages)) < _MIB  # all are compressed


def test_a_body_that_no_reader_would_decompress_is_stored_as_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_BODY", 3 * _MIB)
    nodes = [("/a", _node(b"", (Acl(31, "digest", "x" * 4 * _MIB),))), ("/b", _node(b""))]
    values = list(cut(split_nodes(nodes)))
    assert sum(map(len, values)) < 100_000  # the pieces are compressed
    assert [path for page in join(values) for path, _ in decode_nodes(page)] == ["/a", "/b"]


_PAGE = encode_nodes([("/a", _node(b"abc"))])
_LARGE = list(cut([random.Random(2).randbytes(3 * _MIB)]))


def test_damage_to_a_piece_is_refused() -> None:
    piece = wrap(PIECE_FORMAT, b"body", bytes(7) + b"\1")
    assert list(join([piece])) == [b"body"]
    assert_all_damage_is_refused(lambda value: list(join([value])) if value[:1] == b"P" else _refuse(), piece)


def _refuse() -> None:
    raise BadValue("no piece")


@one_by_one(
    ("values", "complaint"),
    [
        (_LARGE[:-1], "1 pieces of a page are missing"),
        (_LARGE[1:], "number 1 of 3, where 0 should be"),
        ([_LARGE[0], _PAGE], "2 pieces of a page are missing"),
        ([_LARGE[0], *_LARGE], "number 0 of 3, where 1 should be"),
        ([_LARGE[0], wrap(PIECE_FORMAT, b"", b"\0\0\0\1\0\0\0\4")], "number 1 of 4"),
        ([wrap(PIECE_FORMAT, b"", bytes(8))], "number 0 of 0"),
        ([wrap(PIECE_FORMAT, b"", bytes(7))], "a head of 7 bytes"),
    ],
)
def test_pieces_that_do_not_belong_together_are_refused(values: list[bytes], complaint: str) -> None:
    with pytest.raises(BadValue, match=complaint):
        list(join(values))


def test_a_page_in_pieces_belongs_to_the_reader_of_its_first_piece() -> None:
    values = [_PAGE, *_LARGE, _PAGE]
    for start in range(len(values) + 1):
        joiner = Joiner(within=True)
        found = [page for value in values[start:] if (page := joiner.add(value)) is not None]
        assert len(found) == (3 if start == 0 else 2 if start == 1 else 1 if start < 5 else 0)
        joiner = Joiner(within=True)
        for value in values[:start]:
            joiner.add(value)
        assert joiner.missing == (4 - start if start in (2, 3) else 0)
