"""The requests of one connection: which wait for which, and in which order they are answered."""

from collections.abc import Iterable

import pytest

from codec import client as zk
from codec.client import PING, auth, framed, get, multi, packet, set_data
from codec.constants import ErrorCode, OpCode, Xid
from codec.jute import pack_buffer, pack_string
from lab.fakes.connection import Client, FakeHost, FakeLoop, connected, established
from proxy.frontend.limits import LIMITS, Limits
from proxy.frontend.requests import Write
from proxy.state.node import FullNode, make_node
from proxy.state.pause import Pause

_FEW = LIMITS._replace(forced=50_000)


@pytest.fixture
def client() -> Client:
    """A client with a session and the nodes /a (data "old") and /b."""
    return established()


def _puts(xids: Iterable[int]) -> bytes:
    return b"".join(packet(xid, set_data("/a", b"%d" % xid)) for xid in xids)


def _gets(xids: Iterable[int], path: str = "/a") -> bytes:
    return b"".join(packet(xid, get(path)) for xid in xids)


def test_the_requests_of_a_chunk_are_counted_by_their_operation(client: Client) -> None:
    histograms = client.host.latency.by_opcode
    before = {opcode: histogram.count for opcode, histogram in histograms.items()}
    exists = packet(3, zk.exists("/a"))
    client.send(
        _gets([1])
        + packet(2, get("/missing"))
        + exists
        + _gets([4])
        + PING
        + _gets([5])
        # The last read waits for the write.
        + _puts([6])
        + _gets([7])
        + PING
    )
    client.commit()
    assert len(client.received()) == 9
    counted = {opcode: histogram.count - before[opcode] for opcode, histogram in histograms.items()}
    assert {opcode: count for opcode, count in counted.items() if count} == {
        OpCode.GET_DATA: 5,
        OpCode.EXISTS: 1,
        OpCode.SET_DATA: 1,
        OpCode.PING: 2,
    }
    latency = client.connection.latency
    assert latency.count == sum(histogram.count for histogram in histograms.values())
    assert (latency.last_xid, latency.last[0]) == (7, OpCode.PING)


_GET_ACL = framed(1, OpCode.GET_ACL, pack_string("/b"))


def test_a_read_behind_a_heavy_one_is_timed_when_it_is_answered(client: Client) -> None:
    """And not when the client sends something again."""
    latency = client.connection.latency
    before = latency.count
    client.connection.data_received(_GET_ACL + _gets([2]))
    assert latency.count == before + 2


def test_operators_see_what_waits_for_what(client: Client) -> None:
    connection = client.connection
    assert connection.order.waiting(5) == []
    client.send(_puts([1]) + packet(2, get("/b")) + PING + packet(4, set_data("/b", b"2")))
    waiting = connection.order.waiting(5)
    assert [(each.opcode, each.path, each.in_log) for each in waiting[:2]] == [
        (OpCode.SET_DATA, "/a", True),
        (OpCode.GET_DATA, None, False),
    ]
    assert (len(waiting), len(connection.order.waiting(1))) == (4, 1)
    client.commit()
    assert connection.order.waiting(5) == []


def test_of_very_many_lists_few_are_weighed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of names that are not cached is weighed by going over them: 700 lists took 0.8 s."""
    weighed = []

    def names_size(_node: FullNode, _pause: Pause) -> int:
        weighed.append(1)
        return 200_000

    monkeypatch.setattr(FullNode, "names_size", names_size)
    tree = client.host.machine.tree
    tree.attach("/a/below", make_node(*tree.nodes["/b"].fields()))
    lists = (framed(xid, OpCode.GET_CHILDREN, pack_string("/a") + b"\0") for xid in range(1, 701))
    client.send(_puts([0]) + b"".join(lists))
    assert 1 <= len(weighed) <= LIMITS.ahead_in_all // LIMITS.heavy_weight
    client.commit()
    assert client.outcomes()[-1] == (700, ErrorCode.OK)


# -- clients that are not read from ------------------------------------------------------------------------


@pytest.mark.parametrize(("requests", "size"), [(100_000, 0), (0, 1 << 28)])
def test_when_much_waits_in_all_who_waits_is_not_read_from(client: Client, requests: int, size: int) -> None:
    load = client.host.load
    load.requests += requests  # of other connections
    load.size += size
    client.send(packet(1, get("/a")))
    assert client.transport.is_read()  # a client that waits for nothing is still read
    client.send(_puts([2]), _puts([3]), _puts([4]))
    assert not client.transport.is_read()
    client.commit(1)
    assert not client.transport.is_read()
    load.requests -= requests  # now the next answer wakes it
    load.size -= size
    client.commit(1)
    assert client.transport.is_read()
    client.commit()
    assert client.xids() == [1, 2, 3, 4]


def test_the_load_is_what_waits(client: Client) -> None:
    load = client.host.load
    request = _puts([1])
    client.send(request + packet(2, get("/a")), request + pack_buffer(b"\0\0\0\4\0\0\0\5"))
    assert load.requests == 4
    assert load.size > len(request)
    client.connection.pause_writing()  # a client that does not take its answers delays no other
    assert load.requests == 0
    client.connection.resume_writing()
    client.loop.run()
    assert load.requests == 4
    client.commit()
    client.loop.run()
    client.commit()
    assert (load.requests, load.size) == (0, 0)


@pytest.mark.parametrize("how", ["lost", "closed", "auth failed"])
def test_a_connection_that_ends_is_no_load_any_more(client: Client, how: str) -> None:
    client.send(_puts([1]) + _gets([2]))
    if how == "closed":
        client.connection.close()
    if how == "auth failed":
        client.send(packet(Xid.AUTH, auth("nonsense", b"")), _gets([3]))
        client.commit()
    client.lose()
    assert (client.host.load.requests, client.host.load.size) == (0, 0)


def test_a_client_that_reads_may_always_have_writes_and_large_reads_on_their_way() -> None:
    client = established(_FEW, large=10_000)
    client.send(_puts([1]))
    for _ in range(20):
        client.send(packet(2, get("/b")) + _puts([1]))  # the queue is never empty
        client.commit(1)
        assert client.xids() == [1, 2]
    assert not client.transport.is_closed()


def _decoded(client: Client) -> int:
    """Bytes of the multis on their way to the log that are decoded."""
    return sum(len(each.body) for each in client.host.pending if each.fields is not None)


@pytest.mark.parametrize("how", ["read", "lost"])
def test_of_very_many_held_writes_few_are_decoded_in_one_turn(how: str) -> None:
    """They are kept behind a read, and sent together: the rest is decoded in slices, when it is applied."""
    client = established(LIMITS._replace(decoded_at_once=1000))
    client.connection.pause_writing()
    one = packet(2, multi([set_data("/a", b"x" * 20)] * 5))
    client.send(_gets([1]) + one * 30)
    assert client.host.pending == []
    if how == "read":
        client.connection.resume_writing()
        client.loop.run()
    else:
        client.lose()
    assert len(client.host.pending) == 30
    assert 500 < _decoded(client) <= 1000
    client.commit()
    assert client.host.machine.tree.nodes["/a"].version == 150
    assert how == "lost" or client.outcomes() == [(1, 0), *[(2, 0)] * 30]


@pytest.mark.parametrize("limits", [LIMITS, LIMITS._replace(stretch=0)], ids=["usual", "a packet a turn"])
def test_a_client_that_must_authenticate_may_prove_other_identities_in_any_number(limits: Limits) -> None:
    """Without a call within a call for each of them, and not all in one turn if that takes long."""
    host = FakeHost(FakeLoop(), limits=limits)
    host.enforced_schemes = frozenset(["sasl"])
    client = connected(host)
    client.connection.data_received(packet(Xid.AUTH, auth("digest", b"user:word")) * 1500)
    assert limits.stretch or not client.connection.order.is_idle
    client.loop.run()
    assert client.outcomes() == [(Xid.AUTH, 0)] * 1500
    client.send(_gets([1]))
    assert client.outcomes() == [(1, ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH)]
    assert client.transport.is_closed()


def test_what_waits_for_an_authentication_keeps_the_time_at_which_it_came() -> None:
    """So the wait is in latencies and in the log of slow requests."""
    host = FakeHost(FakeLoop(), limits=LIMITS._replace(stretch=0))
    host.enforced_schemes = frozenset(["digest"])
    client = connected(host)
    client.connection.data_received(packet(Xid.AUTH, auth("digest", b"user:word")) + _puts([1, 2]))
    between = host.clock.perf_counter_ns()
    client.connection.data_received(_puts([3]))
    client.loop.run()
    requests = host.pending
    client.commit()
    requests += host.pending
    assert [isinstance(each, Write) and each.received < between for each in requests] == [True, True, False]


def test_of_very_many_writes_before_an_authentication_few_are_decoded_in_one_turn() -> None:
    host = FakeHost(FakeLoop(), limits=LIMITS._replace(decoded_at_once=1000))
    host.enforced_schemes = frozenset(["digest"])
    client = connected(host)
    one = packet(2, multi([set_data("/", b"x" * 20)] * 5))
    client.send(packet(Xid.AUTH, auth("digest", b"user:word")) + one * 30 + _gets([3], "/"))
    assert len(host.pending) == 30
    assert 500 < _decoded(client) <= 1000
    client.commit()
    assert client.outcomes() == [(-4, 0), *[(2, 0)] * 30, (3, 0)]
