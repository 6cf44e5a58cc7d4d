"""Something stalls: the watch stream, a proxy's way to etcd, the eldest proxy."""

import signal
import time
from contextlib import ExitStack

import pytest

from lab.client.blocking import EPHEMERAL, Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.link import Link
from lab.servers.prepared import BUSY, STALLING_STREAM, STALLING_WATCH, prepared
from tests.faults.agreement import let_in_again
from tests.faults.conftest import Start
from tests.faults.pinging import pinging

pytestmark = pytest.mark.real

#: Seconds that the end of a session may be late, on a busy machine.
_BUSY_S = 12.0


def gone_at(port: int, paths: list[str], timeout: float) -> dict[str, float]:
    """When each of these nodes was seen to be gone, by asking a proxy again and again."""
    seen: dict[str, float] = {}
    with Client(port) as observer:

        def look() -> bool:
            for path in paths:
                if path not in seen and observer.stat(path) is None:
                    seen[path] = time.monotonic()
            return len(seen) == len(paths)

        wait_until(look, "the ends of the sessions", timeout)
    return seen


def test_a_proxy_whose_stream_stalls_stops_serving_in_time(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    staleness = 2
    with ExitStack() as stack:
        other = start(etcd_server, prefix=etcd_prefix)
        stalling = stack.enter_context(
            prepared(STALLING_STREAM, etcd_server, prefix=etcd_prefix, max_staleness=staleness)
        )
        writer = stack.enter_context(Client(other.port))
        writer.create("/n", b"old")
        reader = stack.enter_context(Client(stalling.port))
        reader.sync()
        reader.create("/reader", mode=EPHEMERAL)
        stalling.signal(signal.SIGRTMIN)
        writer.write("/n", b"new")
        began = time.monotonic()
        with pytest.raises(Disconnected):
            wait_until(lambda: reader.read("/n")[0] != b"old", "the end of the connection")
        took = time.monotonic() - began
        # By default it would serve for ten seconds.
        assert took < staleness + 6, f"it served for {took:.1f} s what was old"
        with pytest.raises(Disconnected):
            Client(stalling.port, timeout_s=2)
        # The lease lived all the while: the proxy is not dead, and its session neither.
        assert "is over" not in stalling.log_text()
        reader.reconnect(other.port)
        assert reader.read("/n")[0] == b"new"
        assert reader.stat("/reader") is not None
        stalling.signal(signal.SIGRTMAX)

        let_in_again(reader, stalling.port)
        assert reader.read("/n")[0] == b"new"


def test_a_watch_that_hangs_is_replaced_before_clients_notice(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ExitStack() as stack:
        other = start(etcd_server, prefix=etcd_prefix)
        stalling = stack.enter_context(
            prepared(STALLING_WATCH, etcd_server, prefix=etcd_prefix, max_staleness=6)
        )
        writer = stack.enter_context(Client(other.port))
        writer.create("/n", b"old")
        reader = stack.enter_context(Client(stalling.port))
        reader.sync()
        stalling.signal(signal.SIGRTMIN)
        for data in (b"1", b"2", b"3"):
            writer.write("/n", data)
            # On the same connection: a Disconnected would end the test.
            while reader.read("/n")[0] != data:
                time.sleep(0.05)
        assert "it hangs, and another one begins" in stalling.log_text()


def test_a_holder_that_is_cut_off_closes_the_connection_before_the_ephemerals_go(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    lease = 3
    with ExitStack() as stack:
        link = stack.enter_context(Link(etcd_server.port))
        other = start(etcd_server, prefix=etcd_prefix, proxy_lease=lease)
        holder = start(link.endpoint, prefix=etcd_prefix, proxy_lease=lease)
        # Shorter than the lease, as long, and longer.
        clients = stack.enter_context(pinging(holder.port, "/e", 1_000, 3_000, 6_000))
        with Client(other.port) as client:
            client.sync()
        link.block()
        cut = time.monotonic()
        gone = gone_at(other.port, [each.path for each in clients], 60)
        for each in clients:
            assert each.closed, f"{each.path} is gone, and its client is still connected"
            assert each.closed < gone[each.path], each.path
            # And not for ever: a lease, the session's timeout, and the time that others take to notice.
            assert gone[each.path] - cut < lease + each.client.timeout_ms / 1000 + _BUSY_S


@pytest.mark.parametrize("how", ["stopped", "busy"])
def test_sessions_end_on_time_whatever_the_eldest_does(
    start: Start, etcd_server: EtcdServer, etcd_prefix: str, how: str
) -> None:
    with ExitStack() as stack:
        # It stays the eldest all the while.
        prelude = BUSY if how == "busy" else ""
        eldest = stack.enter_context(prepared(prelude, etcd_server, prefix=etcd_prefix, proxy_lease=30))
        doomed: ZketcdServer = start(etcd_server, prefix=etcd_prefix, proxy_lease=2)
        third = start(etcd_server, prefix=etcd_prefix)
        orphans = stack.enter_context(pinging(doomed.port, "/orphan", 1_000, 4_000))
        (silent,) = stack.enter_context(pinging(third.port, "/silent", 1_000))
        (lively,) = stack.enter_context(pinging(third.port, "/lively", 4_000))
        with Client(third.port) as client:
            client.sync()
        if how == "stopped":
            eldest.pause()
        doomed.kill()
        silent.stop()
        died = time.monotonic()
        gone = gone_at(third.port, [silent.path, *(each.path for each in orphans)], 60)
        # An eldest that is waited for costs 30 s.
        assert gone[silent.path] - died < 1 + _BUSY_S
        for each in orphans:
            timeout = each.client.timeout_ms / 1000
            took = gone[each.path] - died
            # The key goes with the lease, after 2 s or more. The second eldest waits 1 s longer.
            assert timeout - 1 < took < 2 + max(2, timeout - 2) + 1 + _BUSY_S, f"{each.path}: {took:.1f} s"
        assert not lively.closed
        if how == "stopped":
            eldest.resume()
