"""Reads: answers, refusals, the watches that they set, and what a read-only session may ask."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import INT, Acl, Reader, pack_acls, pack_string
from codec.packets import STAT
from lab.oracle.requests import Create, SetAcl, SetData
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.ops import EXTENDED, PLAIN, for_read_only_session
from proxy.state.outcome import Refusal
from proxy.state.pause import TooLong
from tests.proxy.state.ops.room import Client, do, held, read, refused, room
from tests.table import one_by_one

USER = digest_identity(b"user:word")
_WATCHING = [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]
_ALL = [*_WATCHING, OpCode.GET_ACL]


def _path(path: str, *, watch: bool = False) -> bytes:
    return pack_string(path) + bytes((watch,))


@one_by_one("opcode", [*_ALL, OpCode.GET_ALL_CHILDREN_NUMBER])
@one_by_one(("path", "code"), [("/missing", ErrorCode.NO_NODE), ("/closed", ErrorCode.NO_AUTH)])
def test_what_is_refused(opcode: OpCode, path: str, code: ErrorCode) -> None:
    world = room()
    assert refused(world, opcode, _path(path, watch=True)) is code
    # exists alone watches what is not there
    assert world.watches.total() == (opcode == OpCode.EXISTS and path == "/missing")


@one_by_one("opcode", _WATCHING)
@one_by_one("watch", [False, True])
def test_a_watch_is_set_if_asked_for(opcode: OpCode, watch: bool) -> None:
    world = room()
    client = Client()
    read(world, opcode, _path("/open", watch=watch), client)
    on_children = opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    found = {"/open"} if watch else set()
    assert held(world, client) == [
        set() if on_children else found,
        found if on_children else set(),
        set(),
        set(),
    ]


def test_answers() -> None:
    world = room()
    do(world, SetData("/open", b"data"), SetData("/open/child", None))
    stat, names = world.nodes["/open"].stat(), b"\0\0\0\1" + pack_string("child")
    for opcode, answer in (
        (OpCode.EXISTS, stat),
        (OpCode.GET_DATA, b"\0\0\0\4data" + stat),
        (OpCode.GET_CHILDREN, names),
        (OpCode.GET_CHILDREN2, names + stat),
    ):
        assert read(world, opcode, _path("/open")) == answer
    assert read(world, OpCode.GET_CHILDREN, _path("/open/child")) == b"\0\0\0\0"
    raw = read(world, OpCode.GET_DATA, _path("/open/child"))
    assert raw[:4] == b"\xff\xff\xff\xff", "null data is sent as null"
    assert STAT.unpack(raw[4:])[8] == 0


@one_by_one("opcode", _ALL)
def test_the_empty_path_is_the_root(opcode: OpCode) -> None:
    world = room()
    assert read(world, opcode, _path("")) == read(world, opcode, _path("/"))


def test_password_hashes_are_for_administrators() -> None:
    world = room()
    acl = (Acl(31, *USER), Acl(1, "world", "anyone"))
    do(world, SetAcl("/open", acl))
    stat = world.nodes["/open"].stat()
    assert read(world, OpCode.GET_ACL, _path("/open"), Client(USER)) == pack_acls(acl) + stat
    shown = Reader(read(world, OpCode.GET_ACL, _path("/open"))).acls()
    assert shown == (Acl(31, "digest", "user:x"), Acl(1, "world", "anyone"))


def test_an_acl_that_no_reply_has_room_for_is_refused() -> None:
    """A request of 960 KB made one of 440 MB once."""
    world = room()
    anyone, name = Acl(31, "world", "anyone"), f"u:{'x' * 100_000}"
    for count in (167, 168):
        do(world, SetAcl("/open", (anyone, *(Acl(perms, "digest", name) for perms in range(count)))))
        if count == 167:
            with pytest.raises(TooLong):  # so it is read in slices
                read(world, OpCode.GET_ACL, _path("/open"))
    assert refused(world, OpCode.GET_ACL, _path("/open")) is ErrorCode.BAD_ARGUMENTS


@one_by_one(
    ("prefix", "found"),
    [
        *((everything, {"/brief", "/open/e"}) for everything in (None, "", "/", " / ", " \t\0\x1f ")),
        ("/o", {"/open/e"}),
        ("/open/e", {"/open/e"}),
        ("/open/e/", set()),
        (" /open", set()),
        ("\u00a0", set()),
        ("brief", set()),
    ],
)
def test_the_ephemerals_of_a_session(prefix: str | None, found: set[str]) -> None:
    world = room()
    do(world, Create("/open/e", flags=1))
    do(world, Create("/open/other", flags=1), session=2)
    paths = Reader(read(world, OpCode.GET_EPHEMERALS, pack_string(prefix))).strings() or ()
    assert sorted(path or "" for path in paths) == sorted(found)
    client = Client()
    client.session_id = 77
    assert Reader(read(world, OpCode.GET_EPHEMERALS, pack_string(prefix), client)).strings() == []


@one_by_one(("path", "number"), [("/open", 3), ("/open/child", 1), ("/open/child/x", 0), ("/", 11), ("", 12)])
def test_how_many_nodes_lie_below_one(path: str, number: int) -> None:
    world = room()
    do(world, Create("/open/child/x"), Create("/open2"), Create("/open/y"))
    assert read(world, OpCode.GET_ALL_CHILDREN_NUMBER, pack_string(path)) == INT.pack(number)


def test_who_am_i_shows_schemes_and_user_names() -> None:
    identities = (Identity("ip", "::1"), USER, digest_identity(b":"), Identity("super", "user:x"))
    shown = [("ip", "::1"), ("digest", "user"), ("digest", ""), ("super", "")]
    assert read(room(), OpCode.WHO_AM_I, b"", Client(*identities)) == INT.pack(4) + b"".join(
        pack_string(text) for pair in shown for text in pair
    )


def test_a_read_only_session_reads_and_closes() -> None:
    world = room()
    operations = for_read_only_session(PLAIN)
    assert operations.writes == {}
    for opcode in PLAIN.writes.keys() - {OpCode.CLOSE_SESSION}:
        with pytest.raises(Refusal) as refusal:
            operations.reads[opcode].answer(world.reading, Client(), b"", 0)
        assert refusal.value.code is ErrorCode.NOT_READ_ONLY
    reads = for_read_only_session(EXTENDED).reads
    assert {opcode: reads[opcode] for opcode in EXTENDED.reads} == EXTENDED.reads
    client = Client()
    assert reads[OpCode.CLOSE_SESSION].answer(world.reading, client, b"", 0) == b""
    assert client.has_left
