"""Flow control in both directions, and answers to pings, with the h2 library as the server."""

import asyncio

import h2.settings
import pytest

from proxy.etcd import http2
from proxy.etcd.transport import RpcError
from tests.proxy.etcd.http2_server import HEAD, OK, TIMEOUT, Server, asked, frame, message


def window_updates(sent: bytes, stream: int) -> list[int]:
    """The increments that the client has sent for a stream's window; 0: the connection's."""
    found = []
    while sent:
        end = 9 + int.from_bytes(sent[:3], "big")
        if sent[3] == 8 and int.from_bytes(sent[5:9], "big") == stream:
            found.append(int.from_bytes(sent[9:end], "big"))
        sent = sent[end:]
    return found


@pytest.mark.long
@pytest.mark.parametrize("window", [1, 1000, 65_535, 1 << 20])
async def test_a_large_request_waits_for_room(window: int) -> None:
    server = Server(window=window)
    server.exchange()  # the settings
    size = 3_000 if window == 1 else 300_000
    requests = [bytes([number]) * size for number in range(2)]
    calls = [server.call(request) for request in requests]
    server.exchange(read=False)
    assert all(len(body) <= window for body in server.bodies.values())
    assert sum(map(len, server.bodies.values())) <= 65_535, "the connection has a window of its own"
    for stream, body in server.bodies.items():
        if body:
            server.h2.acknowledge_received_data(len(body), stream)
    server.exchange()
    assert [bytes(server.bodies[call.stream]) for call in calls] == [message(text) for text in requests]
    assert server.ended == [call.stream for call in calls]


async def test_windows_that_shrink_and_grow() -> None:
    server = Server()
    server.exchange()
    call = server.call(bytes(100_000))
    server.exchange(read=False)
    assert len(server.bodies[call.stream]) == 65_535
    server.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 100})
    server.exchange()
    server.h2.acknowledge_received_data(65_535, call.stream)
    server.exchange()
    assert len(server.bodies[call.stream]) == 100_005


@pytest.mark.long
async def test_what_is_received_is_made_room_for() -> None:
    server, call = asked(last=False)
    server.h2.send_headers(call.stream, HEAD)
    chunk = message(bytes(15_000))
    for _ in range(3 * (64 << 20) // len(chunk)):
        server.h2.send_data(call.stream, chunk)
        if server.h2.local_flow_control_window(call.stream) < 16_384:
            server.exchange()
    server.exchange()
    received: list[bytes] = []
    server.h2.send_headers(call.stream, OK, end_stream=True)
    server.exchange()
    await call.listen(received.append)
    assert {len(one) for one in received} == {15_000}


async def test_padding_counts_in_both_windows() -> None:
    """RFC 9113, 6.1: the whole payload counts, padding included, or windows shrink for ever."""
    server, call = asked(last=False)
    padded = bytes((250,)) + message(bytes(10_000)) + bytes(250)
    data = frame(0, 0x8, call.stream, padded)
    for _ in range((64 << 20) // len(padded)):
        server.connection.data_received(data)
    sent = bytes(server.wire.written)
    assert sum(window_updates(sent, call.stream)) > 32 << 20
    assert window_updates(sent, call.stream) == window_updates(sent, 0)


async def test_data_for_a_cancelled_call_counts_in_the_window_of_the_connection() -> None:
    server, call = asked(last=False)
    call.cancel()
    server.wire.written.clear()
    data = frame(0, 0, call.stream, bytes(16_000))
    for _ in range(3000):
        server.connection.data_received(data)
    assert window_updates(bytes(server.wire.written), 0)
    assert server.connection.usable


async def test_a_window_that_grows_too_large_ends_the_call_alone() -> None:
    server = Server()
    call, other = server.call(last=False), server.call()
    server.exchange()
    server.connection.data_received(frame(8, 0, call.stream, b"\x7f\xff\xff\xff"))
    with pytest.raises(RpcError, match="window"):
        await call.result(TIMEOUT)
    server.answer(other, b"answer")
    server.exchange()
    assert server.reset == [call.stream]
    assert await other.result(TIMEOUT) == b"answer"


async def test_the_answer_to_a_ping_leaves_with_other_frames_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "_PONG_DELAY", 60.0)
    server = Server()
    server.call()
    server.h2.ping(b"12345678")
    server.exchange()
    server.call()
    server.exchange()
    assert server.pongs == 0  # else the server would ping anew, and wake us, at each Txn
    monkeypatch.setattr(http2, "_PONG_DELAY", 0.01)
    await asyncio.sleep(0.02)
    server.call()
    server.exchange()
    assert server.pongs == 1


async def test_a_ping_is_answered_at_once_while_a_request_waits_for_the_window() -> None:
    server = Server(window=1000)
    server.exchange()
    server.call(bytes(5000))
    server.exchange(read=False)
    server.h2.ping(b"12345678")
    server.exchange(read=False)
    assert server.pongs == 1  # it is by this answer that the server makes its window larger
