"""Whose requests are handled when: flushes once a slice, a state in parts, and one that is too old."""

import pytest

from codec.client import connect, create, get, packet
from lab.fakes.connection import PASSWORD, SESSION, Client, FakeLoop, established
from proxy.frontend import turns
from proxy.frontend.sessions import ServedSession
from proxy.frontend.transport import PIECE
from proxy.frontend.turns import FlushQueue


class Connection:
    """Notes when it is flushed; a flush may add another connection."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self._name = name

    def flush(self) -> None:
        self._world.flushed.append(self._name)
        if self._name == "first":
            self._world.add("second")


class World:
    def __init__(self, slice_seconds: float = 1.0) -> None:
        self.loop = FakeLoop()
        self.queue = FlushQueue(self.loop.call_soon, slice_seconds=slice_seconds)
        self.flushed: list[str] = []

    def add(self, *names: str) -> None:
        for name in names:
            self.queue.add(Connection(self, name).flush)


def test_all_are_flushed_at_the_end_of_the_turn_in_their_order() -> None:
    world = World()
    world.add("a", "b", "c")
    assert world.flushed == []
    world.loop.turn()
    assert world.flushed == ["a", "b", "c"]
    world.loop.run()
    world.add("d")
    world.loop.run()
    assert world.flushed == ["a", "b", "c", "d"]


def test_what_is_added_meanwhile_comes_in_the_next_turn() -> None:
    world = World()
    world.add("first")
    world.loop.turn()
    assert world.flushed == ["first"]
    world.loop.turn()
    assert world.flushed == ["first", "second"]


def test_very_many_are_flushed_in_slices() -> None:
    world = World(slice_seconds=0)
    names = [str(number) for number in range(200)]
    world.add(*names)
    for turn in range(4):
        before = len(world.flushed)
        assert before < len(names), turn
        world.loop.turn()
        assert 0 < len(world.flushed) - before <= 64
    assert world.flushed == names


@pytest.mark.parametrize("is_behind", [True, False])
def test_connect_requests_and_four_letter_words_do_not_wait_for_the_state(is_behind: bool) -> None:
    host = established().host
    host.attached.clear()
    if is_behind:
        host.state_gate.fell_behind(True)
    else:
        host.begin_long_write()
    newer, asking = (Client(host=host) for _ in range(2))
    newer.send(connect(4000) + packet(1, get("/a")))
    asking.send(b"ru", b"ok")
    assert len(host.attached) == 1
    assert asking.transport.writes == [b"imok"]
    newer.establish()
    newer.send(packet(2, get("/a")))
    assert len(newer.received()) == 1  # the session, and no answer to a read
    host.state_gate.fell_behind(False)
    host.end_long_write()
    newer.loop.run()
    assert newer.xids() == [1, 2]


def test_reads_of_a_session_that_exists_at_once_wait_for_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a read-only one: the connection waits for its turn by then, as one without a session."""
    host = established().host
    host.state_gate.fell_behind(True)
    session = ServedSession(SESSION, 4000, host.loop.now)
    monkeypatch.setattr(host, "attach", lambda connection, _: connection.established(session, PASSWORD))
    newer = Client(host=host)
    newer.send(connect(4000) + packet(1, get("/a")) * (1 + PIECE // len(packet(1, get("/a")))))
    assert len(newer.received()) == 1
    host.state_gate.fell_behind(False)
    newer.loop.run()
    assert set(newer.xids()) == {1}


def test_words_of_many_clients_share_the_time_of_a_turn_with_a_state_that_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PERIOD", 0)
    host = established().host
    host.state_gate.fell_behind(True)
    asking = [Client(host=host) for _ in range(4)]
    for client in asking:
        client.connection.data_received(b"ruok")
    assert [len(client.transport.writes) for client in asking] == [1, 0, 0, 0]
    host.loop.run()
    assert [client.transport.writes for client in asking] == [[b"imok"]] * 4


def test_no_client_reads_while_the_server_is_behind_and_none_counts_as_silent() -> None:
    client = established()
    host = client.host
    client.send(packet(1, create("/c")), packet(2, get("/a")))
    host.state_gate.fell_behind(True)
    client.send(packet(3, get("/a")))
    client.commit()
    assert client.xids() == [1, 2]  # what was taken before sees no older state than when it came
    client.loop.wait(60)
    assert not client.session.check_due(client.loop.now)
    host.begin_long_write()
    host.end_long_write()
    client.loop.run()
    assert client.xids() == []
    host.begin_long_write()
    host.state_gate.fell_behind(False)
    client.loop.run()
    assert client.xids() == []
    host.end_long_write()
    client.loop.run()
    assert client.xids() == [3]


def test_requests_that_have_waited_for_a_process_that_stood_still_wait_until_its_state_is_recent() -> None:
    client = established()
    host = client.host
    host.begin_long_write()
    client.send(packet(3, get("/a")))  # waits already when the process stops
    host.look = lambda: host.state_gate.fell_behind(True)
    host.clock.now += 25
    host.end_long_write()
    client.loop.run()
    client.send(packet(4, get("/a")))
    assert client.xids() == []
    host.look = lambda: None
    host.state_gate.fell_behind(False)
    client.loop.run()
    assert client.xids() == [3, 4]


def test_the_first_request_after_a_standstill_finds_it() -> None:
    client = established()
    host = client.host
    host.clock.now += 25
    host.look = lambda: host.state_gate.fell_behind(True)
    client.send(packet(3, get("/a")))
    assert client.xids() == []
