"""Clients while a write is applied in part: they wait, and are answered from the whole state."""

import pytest

from codec.constants import OpCode
from codec.jute import pack_string
from lab.client import packets
from lab.fakes.connection import Client, established


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b, while a write is half done."""
    client = established()
    client.host.begin_long_write()
    return client


def _whole(client: Client) -> None:
    client.host.end_long_write()
    client.loop.run()


@pytest.mark.parametrize(
    ("request_", "answered"),
    [
        (packets.get(2, "/a"), [1, 2, 3]),
        (packets.ping(), [1, -2, 3]),
        (packets.put(2, "/a", b"1"), [1]),
        (packets.request(2, OpCode.GET_EPHEMERALS, pack_string("")), [1, 2, 3]),
        (packets.request(2, 77), [1, 2]),
    ],
    ids=["read", "ping", "write", "ephemerals", "unknown"],
)
def test_each_request_waits_and_all_behind_it(client: Client, request_: bytes, answered: list[int]) -> None:
    client.send(packets.get(1, "/a") + request_, packets.get(3, "/a"))
    assert client.replies() == []
    assert client.host.pending == []
    assert not client.transport.is_read()
    _whole(client)
    assert client.xids() == answered
    assert client.transport.is_closed() or client.transport.is_read()


def test_another_write_may_come_before_the_gate_was_open(client: Client) -> None:
    client.send(packets.get(1, "/b"))
    client.host.call_waiting()  # and the next long write has begun
    client.loop.run()
    assert client.replies() == []
    client.connection.drain()  # the server stops, and answers first
    assert not client.transport.is_closed()
    _whole(client)
    assert client.xids() == [1]
    assert client.transport.is_closed()


def test_a_client_that_reads_again_waits_for_its_answers(client: Client) -> None:
    client.connection.pause_writing()
    client.host.is_whole = True
    client.send(packets.get(1, "/b"))
    client.host.is_whole = False
    client.connection.resume_writing()
    client.loop.run()
    assert client.replies() == []
    _whole(client)
    assert client.xids() == [1]


def test_a_new_client_and_a_four_letter_word_wait(client: Client) -> None:
    attached = client.host.attached
    attached.clear()
    newer, asking = (Client(host=client.host) for _ in range(2))
    newer.send(packets.connect())
    asking.send(b"ruok")
    assert (attached, asking.transport.writes) == ([], [])
    _whole(client)
    assert len(attached) == 1
    assert asking.transport.writes == [b"imok"]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_client_that_is_gone_meanwhile(client: Client, is_lost: bool) -> None:
    client.send(packets.get(1, "/b"))
    if is_lost:
        client.lose()
    else:
        client.connection.close()
    _whole(client)
    assert client.replies() == []
