"""Reads that take long: one at a time, in slices, on a state that stays; what clients see of them."""

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import Reader
from lab.client import packets
from lab.fakes.connection import Client, connected, established
from proxy.state import node
from proxy.state.pause import Lengths

_ALL_SLOW = Lengths(every=1, at_once=-1)  # each listing takes long, and pauses at each name


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a and /b."""
    client = established()
    client.host.reading.pause.lengths = _ALL_SLOW
    return client


def _list(xid: int, path: str = "/", *, watch: bool = False) -> bytes:
    return packets.read(xid, OpCode.GET_CHILDREN, path, watch=watch)


def _children(body: bytes) -> set[str]:
    return set(Reader(body).strings() or ())  # type: ignore[arg-type]


def _feed(client: Client, chunk: bytes) -> None:
    """As `client.send`, without a turn of the loop."""
    client.connection.data_received(chunk)


def test_a_long_read_holds_the_state_and_what_is_behind_it(client: Client) -> None:
    _feed(client, _list(1) + packets.get(2, "/a") + packets.put(3, "/a", b"1"))
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
    assert client.xids() == [3, -2]


def test_a_long_read_between_two_writes_sees_the_first_alone(client: Client) -> None:
    _feed(client, packets.create(1, "/c") + _list(2) + packets.get(3, "/a") + packets.create(4, "/d"))
    assert len(client.host.pending) == 2  # the second write does not wait for the reads
    client.host.commit(1)
    assert client.host.holds == 1, "before anything else is applied"
    client.loop.run()
    assert client.host.holds == 0
    first, listing, read = client.replies()
    assert (first.xid, listing.xid, read.xid) == (1, 2, 3)
    assert first.zxid == listing.zxid == read.zxid
    assert _children(listing.body) == {"a", "b", "c", "zookeeper"}
    client.commit()
    assert client.xids() == [4]


def test_several_of_a_run_that_waited(client: Client) -> None:
    listings = b"".join(_list(xid, path) for xid, path in enumerate(("/a", "/", "/", "/b"), 2))
    _feed(client, packets.put(1, "/a", b"1") + listings + packets.put(6, "/a", b"2"))
    client.commit()
    assert client.xids() == [1, 2, 3, 4, 5, 6]


def test_a_watch_is_set_when_the_answer_is_made(client: Client) -> None:
    _feed(client, _list(1, watch=True))
    assert not client.host.watches
    client.loop.run()
    assert client.host.watches
    client.send(packets.create(2, "/c"))
    client.commit()
    assert client.xids() == [1, -1, 2]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_connection_that_ends_meanwhile_lets_the_state_go(client: Client, is_lost: bool) -> None:
    _feed(client, _list(1) + packets.put(2, "/a", b"1"))
    client.loop.turn()
    assert client.host.holds == 1
    if is_lost:
        client.lose()
    else:
        client.connection.close()
    client.loop.run()
    assert client.host.holds == 0
    assert len(client.host.pending) == 1, "the write was in ZooKeeper's pipeline, too"


def test_long_reads_of_two_clients_take_turns_with_the_log(client: Client) -> None:
    second = connected(client.host)
    for each in (client, second):
        _feed(each, _list(1))
    held: list[int] = []
    while not (client.transport.writes[-1:] and len(held) > 40):
        held.append(client.host.holds)
        client.loop.turn()
    assert max(held) == 1, "one at a time"
    assert [client.xids(), second.xids()] == [[1], [1]]


def test_one_waits_while_a_write_is_applied_in_part(client: Client) -> None:
    _feed(client, _list(1))
    client.host.begin_long_write()
    client.loop.run()
    assert client.host.holds == 0
    assert client.replies() == []
    client.host.end_long_write()
    client.loop.run()
    assert client.xids() == [1]


@pytest.mark.parametrize("fails", [False, True])
def test_one_that_is_refused_or_fails(client: Client, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    _feed(client, _list(1))
    if fails:
        monkeypatch.setattr(node, "pack_strings", "a mistake")
    else:
        del client.host.machine.tree.nodes["/"]
    client.loop.run()
    assert client.outcomes() == ([] if fails else [(1, ErrorCode.NO_NODE)])
    assert client.transport.is_closed() is fails
    assert client.host.holds == 0
