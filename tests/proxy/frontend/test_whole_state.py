"""Clients beside a write that is applied in part: who goes on, and who waits."""

import pytest

from codec.constants import OpCode
from codec.jute import pack_string
from lab.client import packets
from lab.fakes.connection import Client, established


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b, while a write changes /b."""
    client = established()
    client.host.machine.midway = True
    client.host.machine._changing = {"/b"}
    return client


def _whole(client: Client) -> None:
    client.host.machine.midway = False
    waiting, client.host.when_whole[:] = client.host.when_whole[:], []
    for callback in waiting:
        callback()
    client.loop.run()


@pytest.mark.parametrize(
    "request_",
    [
        packets.get(2, "/b"),
        packets.read(2, OpCode.GET_CHILDREN, "/b"),
        packets.get(2, "/zookeeper/quota"),
        packets.request(2, OpCode.GET_ACL, pack_string("/a")),
        packets.request(2, OpCode.GET_EPHEMERALS, pack_string("")),
        packets.request(2, OpCode.GET_DATA, b"\0\0\0\x05/a"),
        packets.request(2, 77),
    ],
    ids=["changed", "children", "quota", "acl", "ephemerals", "cut", "unknown"],
)
def test_what_may_see_a_part_of_it_waits_and_all_behind_it(client: Client, request_: bytes) -> None:
    client.send(packets.get(1, "/a") + request_, packets.get(3, "/a"))
    assert client.replies() == []
    assert not client.transport.is_read()
    _whole(client)
    assert [reply.xid for reply in client.replies()][:2] == [1, 2]
    assert client.transport.is_closed() or client.transport.is_read()


def test_nothing_is_answered_while_its_events_are_told(client: Client) -> None:
    client.host.machine.begin_events()
    client.send(packets.ping())
    assert client.replies() == []
    _whole(client)
    assert [reply.xid for reply in client.replies()] == [-2]


def test_another_write_may_come_before_the_gate_was_open(client: Client) -> None:
    client.send(packets.get(1, "/b"))
    waiting, client.host.when_whole[:] = client.host.when_whole[:], []
    for callback in waiting:
        callback()  # and the next long write has begun
    client.loop.run()
    assert client.replies() == []
    _whole(client)
    assert [reply.xid for reply in client.replies()] == [1]


def test_a_client_that_reads_again_waits_for_its_answers(client: Client) -> None:
    client.connection.pause_writing()
    client.host.machine.midway = False
    client.send(packets.get(1, "/b"))
    client.host.machine.midway = True
    client.connection.resume_writing()
    client.loop.run()
    assert client.replies() == []
    _whole(client)
    assert [reply.xid for reply in client.replies()] == [1]


def test_a_new_client_and_a_four_letter_word_wait(client: Client) -> None:
    attached = client.host.attached
    attached.clear()
    newer = Client(host=client.host)
    newer.loop = client.loop
    newer.send(packets.connect())
    asking = Client(host=client.host)
    asking.send(b"ruok")
    assert (attached, asking.transport.writes) == ([], [])
    _whole(client)
    assert len(attached) == 1
    assert asking.transport.writes == [b"imok"]


def test_a_client_that_is_gone_meanwhile(client: Client) -> None:
    client.send(packets.get(1, "/b"))
    client.lose()
    _whole(client)
    assert client.transport.writes[-1:] != [b""]
    other = established()
    other.host.machine.midway = True
    other.host.machine.begin_events()
    other.send(packets.get(1, "/b"))
    other.connection.close()
    _whole(other)
    assert other.replies() == []


def test_a_server_that_stops_answers_who_waits(client: Client) -> None:
    client.send(packets.get(1, "/b"))
    client.connection.drain()
    assert not client.transport.is_closed()
    _whole(client)
    assert [reply.xid for reply in client.replies()] == [1]
    assert client.transport.is_closed()
