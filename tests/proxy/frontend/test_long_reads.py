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
