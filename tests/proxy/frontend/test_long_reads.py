"""Reads that take long: one at a time, in slices, on a state that stays; what clients see of them."""

from collections.abc import Callable

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import Reader
from lab.client import packets
from lab.fakes.connection import Client, established
from proxy.state import tree
from proxy.state.pause import Lengths

_ALL_SLOW = Lengths(every=1, at_once=-1)  # each listing takes long, and pauses at each name


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a and /b."""
    return _established()


def _established() -> Client:
    client = established()
    client.host.reading.pause.lengths = _ALL_SLOW
    return client


def _children(body: bytes) -> set[str]:
    return set(Reader(body).strings() or ())  # type: ignore[arg-type]


def _feed(client: Client, *chunks: bytes) -> None:
    """As `client.send`, without a turn of the loop."""
    for chunk in chunks:
        client.connection.data_received(chunk)


def test_a_long_read_holds_the_state_and_what_is_behind_it(client: Client) -> None:
    _feed(
        client, packets.read(1, OpCode.GET_CHILDREN, "/") + packets.get(2, "/a") + packets.put(3, "/a", b"1")
    )
    _feed(client, packets.ping())
    assert client.host.pending == [], "the write would be applied before the read"
    client.loop.turn()
    assert client.host.holds == 1
    assert client.received() == []
    turns = 1
    while client.host.holds:
        client.loop.turn()
        turns += 1
    assert turns >= 3
    client.loop.run()
    first, second = client.replies()
    assert (first.xid, second.xid, second.data) == (1, 2, b"old")
    assert _children(first.body) == {"a", "b", "zookeeper"}
    client.commit()
    assert [reply.xid for reply in client.replies()] == [3, -2]


def test_a_long_read_between_two_writes_sees_the_first_alone(client: Client) -> None:
    names = {"a", "b", "zookeeper"}
    _feed(
        client,
        packets.create(1, "/c")
        + packets.read(2, OpCode.GET_CHILDREN, "/")
        + packets.get(3, "/a")
        + packets.create(4, "/d"),
    )
    assert len(client.host.pending) == 2  # the second write does not wait for the reads
    client.host.commit(1)
    assert client.host.holds == 1, "before anything else is applied"
    client.loop.run()
    assert client.host.holds == 0
    first, listing, read = client.replies()
    assert (first.xid, listing.xid, read.xid) == (1, 2, 3)
    assert first.zxid == listing.zxid == read.zxid
    assert _children(listing.body) == names | {"c"}
    client.commit()
    assert [reply.xid for reply in client.replies()] == [4]


def test_several_of_a_run_that_waited(client: Client) -> None:
    listing = [
        packets.read(xid, OpCode.GET_CHILDREN, path) for xid, path in enumerate(("/a", "/", "/", "/b"), 2)
    ]
    _feed(client, packets.put(1, "/a", b"1") + b"".join(listing) + packets.put(6, "/a", b"2"))
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, 2, 3, 4, 5, 6]


def test_a_watch_is_set_when_the_answer_is_made(client: Client) -> None:
    _feed(client, packets.read(1, OpCode.GET_CHILDREN, "/", watch=True))
    assert not client.host.watches
    client.loop.run()
    assert client.host.watches
    client.send(packets.create(2, "/c"))
    client.commit()
    assert [reply.xid for reply in client.replies()] == [1, -1, 2]


@pytest.mark.parametrize(
    "end", [Client.lose, lambda client: client.connection.close()], ids=["lost", "closed"]
)
def test_a_connection_that_ends_meanwhile_lets_the_state_go(
    client: Client, end: Callable[[Client], None]
) -> None:
    _feed(client, packets.read(1, OpCode.GET_CHILDREN, "/") + packets.put(2, "/a", b"1"))
    client.loop.turn()
    assert client.host.holds == 1
    end(client)
    client.loop.run()
    assert client.host.holds == 0
    assert len(client.host.pending) == 1, "the write was in ZooKeeper's pipeline, too"


def test_long_reads_of_two_clients_take_turns_with_the_log(client: Client) -> None:
    first = client
    second = Client(host=first.host, session_id=1)
    second.loop = first.loop
    second.send(packets.connect())
    second.establish()
    second.received()
    _feed(first, packets.read(1, OpCode.GET_CHILDREN, "/"))
    _feed(second, packets.read(1, OpCode.GET_CHILDREN, "/"))
    held: list[int] = []
    while not (first.transport.writes[-1:] and len(held) > 40):
        held.append(first.host.holds)
        first.loop.turn()
    assert max(held) == 1, "one at a time"
    assert [reply.xid for reply in first.replies()] == [1]
    assert [reply.xid for reply in second.replies()] == [1]


def test_one_waits_while_a_write_is_applied_in_part(client: Client) -> None:
    _feed(client, packets.read(1, OpCode.GET_CHILDREN, "/"))
    client.host.begin_long_write()
    client.loop.run()
    assert client.host.holds == 0
    assert client.replies() == []
    client.host.end_long_write()
    client.loop.run()
    assert [reply.xid for reply in client.replies()] == [1]


def test_one_that_is_refused_or_fails(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    _feed(client, packets.read(1, OpCode.GET_CHILDREN, "/"))
    del client.host.machine.tree.nodes["/"]
    client.loop.run()
    assert [(reply.xid, reply.err) for reply in client.replies()] == [(1, ErrorCode.NO_NODE)]
    other = _established()
    _feed(other, packets.read(1, OpCode.GET_CHILDREN, "/"))
    monkeypatch.setattr(tree, "pack_strings", "a mistake")
    other.loop.run()
    assert other.host.holds == 0
    assert other.transport.is_closed()
