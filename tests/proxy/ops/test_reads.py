"""Reads: answers, refusals and the watches that they set."""

from collections.abc import Sequence

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import Acl, Reader, pack_acls, pack_string
from codec.packets import STAT
from proxy.auth.digest import digest_identity
from proxy.auth.scheme import Identity
from proxy.operation import Reading
from proxy.ops import READS
from proxy.refusal import Refusal
from tests.proxy.naive import SetAcl, SetData
from tests.proxy.ops.room import do, room
from tests.proxy.world import Proxy

USER = digest_identity(b"user:word")


class Client:
    """Whoever reads."""

    def __init__(self, *identities: Identity) -> None:
        self.session_id = 1
        self.identities = identities
        self.knows_keeper = False
        self.has_left = False
        self.told: list[tuple[int, str, int, Sequence[Acl]]] = []

    def farewell(self) -> None:
        self.has_left = True

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        self.told.append((kind, path, zxid, acl))


def ask(proxy: Proxy, opcode: OpCode, path: str, client: Client, *, watch: bool = False) -> bytes:
    """The body of the reply."""
    reading = Reading(proxy.mirror.tree, proxy.watches)
    return READS[opcode](reading, client, b"head" + pack_string(path) + bytes((watch,)), 4)


_ALL = [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]


@pytest.mark.parametrize("opcode", [*_ALL, OpCode.GET_ACL])
@pytest.mark.parametrize(("path", "code"), [("/missing", ErrorCode.NO_NODE), ("/closed", ErrorCode.NO_AUTH)])
def test_what_is_refused(opcode: OpCode, path: str, code: ErrorCode) -> None:
    proxy = room()
    client = Client()
    with pytest.raises(Refusal) as refusal:
        ask(proxy, opcode, path, client, watch=True)
    assert refusal.value.code is code
    # exists alone watches what is not there
    assert proxy.watches.total() == (opcode == OpCode.EXISTS and path == "/missing")


@pytest.mark.parametrize("opcode", _ALL)
@pytest.mark.parametrize("watch", [False, True])
def test_a_watch_is_set_if_asked_for(opcode: OpCode, watch: bool) -> None:
    proxy = room()
    client = Client()
    ask(proxy, opcode, "/open", client, watch=watch)
    on_children = opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    assert (client in proxy.watches.data.by_watcher) is (watch and not on_children)
    assert (client in proxy.watches.children.by_watcher) is (watch and on_children)


def test_answers() -> None:
    proxy = room()
    do(proxy, SetData("/open", b"data"))
    stat = proxy.mirror.tree.nodes["/open"].stat()
    client = Client()
    assert ask(proxy, OpCode.EXISTS, "/open", client) == stat
    assert ask(proxy, OpCode.GET_DATA, "/open", client) == b"\0\0\0\4data" + stat
    assert ask(proxy, OpCode.GET_CHILDREN, "/open", client) == b"\0\0\0\1" + pack_string("child")
    assert ask(proxy, OpCode.GET_CHILDREN2, "/open", client) == b"\0\0\0\1" + pack_string("child") + stat
    assert ask(proxy, OpCode.GET_CHILDREN, "/open/child", client) == b"\0\0\0\0"


def test_null_data_is_sent_as_null() -> None:
    proxy = room()
    do(proxy, SetData("/open", None))
    raw = ask(proxy, OpCode.GET_DATA, "/open", Client())
    assert raw[:4] == b"\xff\xff\xff\xff"
    assert STAT.unpack(raw[4:])[8] == 0


@pytest.mark.parametrize("opcode", [*_ALL, OpCode.GET_ACL])
def test_the_empty_path_is_the_root(opcode: OpCode) -> None:
    proxy = room()
    assert ask(proxy, opcode, "", Client()) == ask(proxy, opcode, "/", Client())


def test_password_hashes_are_for_administrators() -> None:
    proxy = room()
    acl = (Acl(31, *USER), Acl(1, "world", "anyone"))
    do(proxy, SetAcl("/open", acl))
    stat = proxy.mirror.tree.nodes["/open"].stat()
    assert ask(proxy, OpCode.GET_ACL, "/open", Client(USER)) == pack_acls(acl) + stat
    shown = Reader(ask(proxy, OpCode.GET_ACL, "/open", Client())).acls()
    assert shown == (Acl(31, "digest", "user:x"), Acl(1, "world", "anyone"))
