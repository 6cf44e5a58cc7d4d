"""Changes as lines: the form, who sees which, and a reader that goes on at any of them."""

import json

import pytest

from codec.jute import Acl
from proxy.state.auth.scheme import Identity
from proxy.state.feed import Id, Made, Selection, id_of, made_by, row
from proxy.state.recording import NONE, Recorded, What
from proxy.state.rights import OPEN, rights_of
from schema.entry import Kind, Request
from schema.followed import Followed, encode_followed
from tests.mirror import Mirror
from tests.table import one_by_one

_AMY = rights_of((Acl(1, "digest", "amy:hash"),))
_BEGINNING = Id(0)
_ALL = Selection("/", data=False, identities=(), events=False)
_MULTI = Made(
    0x500000123,
    1_700_000_000_000,
    "MULTI",
    (
        Recorded(What.CREATED, "/a", NONE, 0, None, b"text"),
        Recorded(What.DATA, "/a/b", 3, 4, b"x", b"\xff"),
        Recorded(What.DATA, "/ab", 0, 1, None, None, rights=_AMY),
        Recorded(What.ACL, "/a/b", 0, 1, b"x", b"x", (Acl(31, "world", "anyone"),)),
        Recorded(What.DELETED, "/c\nd", 7, NONE, b"gone"),
    ),
)

_FOLLOWED = encode_followed(Followed(2, 5, [], [], [], [], [], [], []))


def _lines(wanted: Selection, after: Id = _BEGINNING, made: Made = _MULTI) -> list[bytes]:
    return [line for _, line in wanted.lines(made, after)]


def test_a_line_for_each_change() -> None:
    assert _lines(_ALL._replace(path="/a", data=True)) == [
        b'{"id":"0x500000123.1","zxid":21474836771,"time":1700000000000,"operation":"MULTI",'
        b'"change":"created","path":"/a","version_before":null,"version_after":0,'
        b'"data":"text","data_base64":null}\n',
        b'{"id":"0x500000123.2","zxid":21474836771,"time":1700000000000,"operation":"MULTI",'
        b'"change":"set","path":"/a/b","version_before":3,"version_after":4,'
        b'"data":null,"data_base64":"/w=="}\n',
        b'{"id":"0x500000123.4","zxid":21474836771,"time":1700000000000,"operation":"MULTI",'
        b'"change":"setACL","path":"/a/b","version_before":0,"version_after":1,'
        b'"data":null,"data_base64":null}\n',
    ]
    found = [json.loads(line) for line in _lines(_ALL)]
    assert [each["path"] for each in found] == ["/a", "/a/b", "/a/b", "/c\nd"]
    assert found[-1]["id"] == "0x500000123"  # the last one of its request
    assert "data" not in found[0]


def test_server_sent_events_have_the_same_lines() -> None:
    wanted = _ALL._replace(events=True)
    for event, line in zip(_lines(wanted), _lines(_ALL), strict=True):
        id_line, data, empty, rest = event.split(b"\n")
        assert (data, empty, rest) == (b"data: " + line.strip(), b"", b"")
        assert id_line.decode() == f"id: {json.loads(line)['id']}"
    assert wanted.mark(Id(5)) == b"id: 0x5\n\n"
    assert wanted.last(Id(5, 2), "why\n") == b'event: end\nid: 0x5.2\ndata: {"id":"0x5.2","end":"why\\n"}\n\n'
    assert _ALL.mark(Id(5)) == b'{"id":"0x5"}\n'
    assert _ALL.last(Id(5), "why") == b'{"id":"0x5","end":"why"}\n'


@one_by_one("events", [False, True])
@one_by_one("data", ["\1" * 100_000, "\U0001f600" * 50_000, 'a,"data":""' * 9000, b"\xff\x00" * 50_000])
def test_long_data_come_in_pieces(data: str | bytes, events: bool) -> None:
    raw = data.encode() if isinstance(data, str) else data
    change = Recorded(What.DATA, '/a,"data":"","data_base64":""', 3, 4, b"x", raw)
    made = Made(5, 6, "SET_DATA", (change,))
    wanted = _ALL._replace(data=True, events=events)
    ((here, pieces),) = wanted.pieces(made, made.left(_BEGINNING))
    sizes = list(map(len, pieces))
    assert max(sizes) < 300_000
    assert len(sizes) > 4
    (line,) = _lines(wanted, made=made)
    expected = json.dumps({"id": str(here), **row(made, change, data=True)}, separators=(",", ":"))
    start, end = (f"id: {here}\ndata: ", "\n\n") if events else ("", "\n")
    assert line.decode() == start + expected + end


def test_a_reader_sees_the_nodes_that_it_may_read() -> None:
    amy = _ALL._replace(identities=(Identity("digest", "amy:hash"),))
    assert len(_lines(amy)) == len(_lines(_ALL)) + 1
    assert len(_lines(_ALL._replace(identities=(Identity("super", ""),)))) == 5


def test_a_reader_goes_on_behind_any_line() -> None:
    whole = list(_ALL.lines(_MULTI, Id(0)))
    for done, (here, _) in enumerate(whole, 1):
        assert list(_ALL.lines(_MULTI, id_of(str(here)))) == whole[done:]
    assert _lines(_ALL, Id(_MULTI.zxid - 1)) == _lines(_ALL)
    for zxid in (_MULTI.zxid, _MULTI.zxid + 1):
        assert _lines(_ALL, Id(zxid)) == []
    assert _lines(_ALL, Id(_MULTI.zxid, 5)) == []
    assert (Id(5).whole, Id(5, 2).whole) == (5, 4)
    assert Id(5, 1) < Id(5, 2) < Id(5) < Id(6, 1)


@pytest.mark.parametrize(
    ("text", "zxid", "part"), [("0x1f", 31, None), ("0X1F", 31, None), ("31", 31, None), ("0x1f.2", 31, 2)]
)
def test_ids(text: str, zxid: int, part: int | None) -> None:
    assert id_of(text) == (Id(zxid) if part is None else Id(zxid, part))
    assert id_of(str(id_of(text))) == id_of(text)


@one_by_one(
    "text",
    [
        *("", "x", "0x", "-1", "1.0", "1.", ".1", "0x1.-1", " 1", "1 ", "1\n", "١", "0x8000000000000000"),
        *("1" * 30, "9999999999999999999", "1.1.1", "0x1f,2", "0x1f.9999999999"),
    ],
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a zxid"):
        id_of(text)


def test_a_tree_that_follows_another_gets_the_versions_of_the_other() -> None:
    """A node's Stat is no change that a line shows, except its version."""
    followed = Request(Kind.FOLLOWED, 0, 0, (), _FOLLOWED)
    created = Recorded(What.CREATED, "/a/b", NONE, 0, None, b"x")
    version = Recorded(What.STAT, "/a/b", 0, 7, b"x", b"x")
    made = made_by(followed, 5, 6, [created, version, Recorded(What.STAT, "/a", 3, 3, b"y", b"y")])
    assert made == Made(5, 6, "FOLLOWED", (created, version), follows=2)
    mirror = Mirror()
    for line in _lines(_ALL._replace(data=True), made=made):
        mirror.take(line)
    assert mirror.nodes["/a/b"] == (7, b"x")


def test_within_changes_that_were_followed_no_reader_goes_on() -> None:
    """The other tree has them in another order, and one by one."""
    followed = _MULTI._replace(follows=0x5000000F0)
    whole = list(_ALL.lines(followed, Id(0x5000000F0)))
    assert [str(here) for here, _ in whole] == ["0x5000000f0"] * 3 + ["0x500000123"]
    # An id of the other tree, of this transaction or of an earlier one.
    for since in ("0x500000123.1", "0x500000100.2", "0x500000100", "0x500000122"):
        assert list(_ALL.lines(followed, id_of(since))) == whole
    assert _lines(_ALL, Id(0x500000123), followed) == []


def test_changes_of_sessions_are_none_of_nodes() -> None:
    close = Request(Kind.CLOSE, 1, 0, (), b"")
    assert made_by(close, 5, 6, [Recorded(What.CLOSED)]) is None
    gone = Recorded(What.DELETED, "/e", 0, NONE, b"")
    assert made_by(close, 5, 6, [Recorded(What.CLOSED), gone]) == Made(5, 6, "CLOSE", (gone,))
    create = Request(Kind.CLIENT, 1, 1, (), b"")
    made = made_by(create, 5, 6, [Recorded(What.CREATED, "/e", NONE, 0, None, b"", rights=OPEN)])
    assert made is not None
    assert made.operation == "CREATE"
