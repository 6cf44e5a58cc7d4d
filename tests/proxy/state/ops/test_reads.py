"""Reads: answers, refusals and the watches that they set."""

from collections.abc import Sequence

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import Acl, Reader, pack_acls, pack_string
from codec.packets import STAT
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.ops import READS
from proxy.state.refusal import Refusal
from tests.proxy.state.naive import SetAcl, SetData
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.world import World

USER = digest_identity(b"user:word")


class Client:
    """Whoever reads."""

    def __init__(self, *identities: Identity) -> None:
        self.session_id = 1
        self.identities = identities
        self.knows_keeper = False
        self.has_left = False
        self.told: list[tuple[int, str, int, Sequence[Acl]]] = []

    def local_session_closed(self) -> None:
        self.has_left = True

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        self.told.append((kind, path, zxid, acl))


def ask(world: World, opcode: OpCode, path: str, client: Client, *, watch: bool = False) -> bytes:
    """The body of the reply."""
    reading = world.reading
    return READS[opcode](reading, client, b"head" + pack_string(path) + bytes((watch,)), 4)


def held(world: World, client: Client) -> list[set[str]]:
    """The paths that a connection watches: data, children, persistent and recursive."""
    watches = world.watches
    tables = (watches.data, watches.children, watches.persistent, watches.recursive)
    return [set(table.by_watcher.get(client, ())) for table in tables]


_ALL = [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]


@pytest.mark.parametrize("opcode", [*_ALL, OpCode.GET_ACL])
@pytest.mark.parametrize(("path", "code"), [("/missing", ErrorCode.NO_NODE), ("/closed", ErrorCode.NO_AUTH)])
def test_what_is_refused(opcode: OpCode, path: str, code: ErrorCode) -> None:
    world = room()
    client = Client()
    with pytest.raises(Refusal) as refusal:
        ask(world, opcode, path, client, watch=True)
    assert refusal.value.code is code
    # exists alone watches what is not there
    assert world.watches.total() == (opcode == OpCode.EXISTS and path == "/missing")


@pytest.mark.parametrize("opcode", _ALL)
@pytest.mark.parametrize("watch", [False, True])
def test_a_watch_is_set_if_asked_for(opcode: OpCode, watch: bool) -> None:
    world = room()
    client = Client()
    ask(world, opcode, "/open", client, watch=watch)
    on_children = opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    assert (client in world.watches.data.by_watcher) is (watch and not on_children)
    assert (client in world.watches.children.by_watcher) is (watch and on_children)


def test_answers() -> None:
    world = room()
    do(world, SetData("/open", b"data"))
    stat = world.machine.tree.nodes["/open"].stat()
    client = Client()
    assert ask(world, OpCode.EXISTS, "/open", client) == stat
    assert ask(world, OpCode.GET_DATA, "/open", client) == b"\0\0\0\4data" + stat
    assert ask(world, OpCode.GET_CHILDREN, "/open", client) == b"\0\0\0\1" + pack_string("child")
    assert ask(world, OpCode.GET_CHILDREN2, "/open", client) == b"\0\0\0\1" + pack_string("child") + stat
    assert ask(world, OpCode.GET_CHILDREN, "/open/child", client) == b"\0\0\0\0"


def test_null_data_is_sent_as_null() -> None:
    world = room()
    do(world, SetData("/open", None))
    raw = ask(world, OpCode.GET_DATA, "/open", Client())
    assert raw[:4] == b"\xff\xff\xff\xff"
    assert STAT.unpack(raw[4:])[8] == 0


@pytest.mark.parametrize("opcode", [*_ALL, OpCode.GET_ACL])
def test_the_empty_path_is_the_root(opcode: OpCode) -> None:
    world = room()
    assert ask(world, opcode, "", Client()) == ask(world, opcode, "/", Client())


def test_password_hashes_are_for_administrators() -> None:
    world = room()
    acl = (Acl(31, *USER), Acl(1, "world", "anyone"))
    do(world, SetAcl("/open", acl))
    stat = world.machine.tree.nodes["/open"].stat()
    assert ask(world, OpCode.GET_ACL, "/open", Client(USER)) == pack_acls(acl) + stat
    shown = Reader(ask(world, OpCode.GET_ACL, "/open", Client())).acls()
    assert shown == (Acl(31, "digest", "user:x"), Acl(1, "world", "anyone"))
