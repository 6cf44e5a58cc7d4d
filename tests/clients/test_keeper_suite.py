"""What ClickHouse's integration tests of Keeper check with kazoo, where no other test here does.

examples/workloads.md has the list of those tests, and what else answers them.
"""

import queue
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.exceptions import BadVersionError, NoNodeError, RolledBackError
from kazoo.protocol.states import WatchedEvent, ZnodeStat

from lab.servers import wait_until
from lab.servers.process import ServerProcess
from tests.kazoo import kazoo

Pair = tuple[ServerProcess, ServerProcess]


def test_no_watch_that_many_threads_set_is_lost(pair: Pair) -> None:
    fired: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    with kazoo(pair[0]) as watching, kazoo(pair[1]) as changing:
        for node in range(20):
            watching.create(f"/{node}")

        def use(thread: int) -> None:
            for number in range(50):
                node = f"/{(7 * thread + number) % 20}"
                watching.get(node, watch=lambda event, which=(thread, number): fired.put(which))
                changing.set(node, b"by %d" % thread)

        with ThreadPoolExecutor(10) as threads:
            list(threads.map(use, range(10)))
        assert len({fired.get(timeout=60) for _ in range(500)}) == 500


def test_what_fails_fires_no_watch(pair: Pair) -> None:
    with kazoo(pair[0]) as client:
        client.create("/watched")
        events: list[WatchedEvent] = []
        client.get("/watched", watch=events.append)
        with pytest.raises(BadVersionError):
            client.set("/watched", b"", version=9)
        multi = client.transaction()
        multi.set_data("/watched", b"rolled back")
        multi.delete("/missing")
        assert [type(result) for result in multi.commit()] == [RolledBackError, NoNodeError]
        assert client.get("/watched")[0] == b""
        assert events == []
        multi = client.transaction()
        multi.set_data("/watched", b"done")
        multi.commit()
        wait_until(lambda: events, "the event")
        assert [(event.type, event.path) for event in events] == [("CHANGED", "/watched")]


def test_stats_are_the_same_at_every_server_and_after_a_restart(pair: Pair) -> None:
    first, second = pair
    with kazoo(first) as client:
        paths = [f"/{number}" for number in range(100)]
        for path in paths:
            client.create(path)
        for path in paths[::2]:
            client.set(path, b"value")
        before = [client.exists(path) for path in paths]
        assert len({stat.mtime for stat in before}) > 1

    def elsewhere() -> list[ZnodeStat]:
        with kazoo(second) as other:
            other.sync("/")
            return [other.exists(path) for path in paths]

    assert elsewhere() == before
    second.kill()
    second.start()
    assert elsewhere() == before
