"""Relays: each way stops, slows and breaks alone, and nothing is lost on a way that is mended."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.servers import wait_until
from lab.servers.relay import Quality, Relays

_TIMEOUT_S = 60.0
_STOPPED = Quality(stopped=True)


@pytest.fixture(scope="module")
def relays() -> Iterator[Relays]:
    with Relays() as relays:
        yield relays


@pytest.fixture
def target() -> Iterator[socket.socket]:
    """A server that accepts by hand."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(_TIMEOUT_S)
        yield listening


def _connected(relays: Relays, target: socket.socket, dialer: str | None, name: str) -> socket.socket:
    port = relays.listen(dialer, name, target.getsockname()[1])
    near = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near


def _accepted(target: socket.socket) -> socket.socket:
    far, _ = target.accept()
    far.settimeout(_TIMEOUT_S)
    return far


def _silent(end: socket.socket, seconds: float = 0.3) -> bool:
    end.settimeout(seconds)
    try:
        return end.recv(1, socket.MSG_PEEK) == b"never"
    except TimeoutError:
        return True
    finally:
        end.settimeout(_TIMEOUT_S)


def test_one_way_stops_and_keeps_its_bytes_while_the_other_goes_on(
    relays: Relays, target: socket.socket
) -> None:
    with _connected(relays, target, "a", "b") as near, _accepted(target) as far:
        near.sendall(b"1")
        assert far.recv(10) == b"1"
        relays.change({("a", "b"): _STOPPED})
        near.sendall(b"2")
        far.sendall(b"back")
        assert near.recv(10) == b"back"
        assert _silent(far)
        relays.change({("a", "b"): Quality()})
        assert far.recv(10) == b"2"


def test_a_slow_way_takes_its_time_and_loses_nothing(relays: Relays, target: socket.socket) -> None:
    sent = bytes(range(256)) * 4096  # more than a way holds back
    with _connected(relays, target, "slow", "b") as near, _accepted(target) as far:
        relays.change({("slow", "b"): Quality(latency=0.2, bandwidth=4e6)})
        began = time.monotonic()
        sender = threading.Thread(target=near.sendall, args=(sent + sent,))
        sender.start()
        got = b""
        while len(got) < 2 * len(sent):
            got += far.recv(1 << 16)
        sender.join()
        assert got == sent + sent
        assert time.monotonic() - began >= 0.2 + 2 * len(sent) / 4e6 - 0.05


def test_connections_are_broken_on_both_ends(relays: Relays, target: socket.socket) -> None:
    with (
        _connected(relays, target, "x", "b") as near,
        _accepted(target) as far,
        _connected(relays, target, "y", "b") as other,
        _accepted(target) as other_far,
    ):
        near.sendall(b"1")
        other.sendall(b"1")
        assert far.recv(1) + other_far.recv(1) == b"11"
        assert relays.reset({("x", "b")}) == 1
        for end in (near, far):
            assert wait_until(lambda end=end: _is_broken(end), "it is broken", _TIMEOUT_S)  # type: ignore[misc]
        other.sendall(b"2")
        assert other_far.recv(1) == b"2"


def _is_broken(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except OSError:
        return True


def test_a_member_of_etcd_is_known_by_its_first_request(relays: Relays, target: socket.socket) -> None:
    relays.change({("cafe", "member0"): _STOPPED})
    request = b"GET /raft/stream/message/1 HTTP/1.1\r\nHost: x\r\nX-Server-From: %b\r\n\r\n"
    with _connected(relays, target, None, "member0") as beef:
        beef.sendall(request % b"beef")
        with _accepted(target) as far:
            assert far.recv(1000) == request % b"beef"
    with _connected(relays, target, None, "member0") as cafe:
        cafe.sendall(request % b"cafe")
        with _accepted(target) as far:
            assert _silent(far)
            relays.change({("cafe", "member0"): Quality()})
            assert far.recv(1000) == request % b"cafe"


def test_several_threads_may_use_it() -> None:
    """Two faults at once."""
    way = ("near", "far")
    with Relays() as relays, ThreadPoolExecutor(4) as threads:
        asked = [
            threads.submit(relays.reset, {way})
            if turn % 2
            else threads.submit(relays.change, {way: Quality()})
            for turn in range(400)
        ]
        assert {each.result() for each in asked} == {0, None}
