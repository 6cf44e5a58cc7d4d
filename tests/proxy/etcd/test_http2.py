"""The HTTP/2 side of calls, against another implementation of HTTP/2 (the h2 library) as the server."""

import asyncio
from collections.abc import Callable
from functools import partial

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.simulation.world import Host, World
from proxy.etcd import http2
from proxy.etcd.http2 import request_headers
from proxy.etcd.transport import RpcError
from tests.proxy.etcd.http2_server import HEAD, OK, TIMEOUT, Server, asked, frame, message
from tests.table import one_by_one


async def test_a_request_is_what_grpc_prescribes() -> None:
    server, call = asked(b"request")
    assert server.requests[call.stream] == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/a/B",
        ":authority": "etcd:2379",
        "content-type": "application/grpc",
        "te": "trailers",
        "grpc-timeout": "5000m",
        "token": "x",
    }
    assert bytes(server.bodies[call.stream]) == message(b"request")
    assert server.ended == [call.stream]
    server.answer(call, b"answer")
    server.exchange()
    assert await call.result(TIMEOUT) == b"answer"
    assert not server.connection.busy
    assert not server.reset


@given(value=st.text(st.characters(codec="ascii", min_codepoint=33), max_size=20_000))
def test_long_values_of_fields(value: str) -> None:
    block = request_headers("https", "a", "/p", None, (("token", value),))
    fields = dict(hpack.Decoder(max_header_list_size=1 << 20).decode(block, raw=True))
    assert fields[b"token"] == value.encode()
    assert fields[b":scheme"] == b"https"


@given(data=st.data())
async def test_answers_in_any_pieces(data: st.DataObject) -> None:
    server = Server()
    calls = [server.call(b"%d" % number) for number in range(3)]
    server.exchange()
    texts = [data.draw(st.binary(max_size=40_000)) for _ in calls]
    for call, text in zip(calls, texts, strict=True):
        server.h2.send_headers(call.stream, HEAD)
        body = message(text)
        cut = data.draw(st.integers(0, len(body)))
        for begin, end in ((0, cut), (cut, len(body))):
            for at in range(begin, end, 16_000):
                padding = data.draw(st.sampled_from((None, 0, 7)))
                server.h2.send_data(call.stream, body[at : min(end, at + 16_000)], pad_length=padding)
        server.h2.send_headers(call.stream, OK, end_stream=True)

    def piecewise(stream: bytes) -> None:
        position = 0
        while position < len(stream):
            size = data.draw(st.integers(1, 20_000))
            server.connection.data_received(stream[position : position + size])
            position += size

    server.exchange(piecewise)
    assert [await call.result(TIMEOUT) for call in calls] == texts


async def test_every_split_of_an_answer() -> None:
    server, first = asked()
    server.answer(first, b"answer")
    stream = server.h2.data_to_send()
    for cut in range(len(stream)):
        other = Server()
        call = other.call()
        other.exchange()
        other.connection.data_received(stream[:cut])
        other.connection.data_received(stream[cut:])
        assert await call.result(TIMEOUT) == b"answer"


async def test_headers_with_padding_and_a_priority_or_in_pieces() -> None:
    block = hpack.Encoder().encode(
        [*HEAD, ("grpc-status", "5"), ("grpc-message", "not found")], huffman=False
    )
    parts = [block[at : at + 7] for at in range(0, len(block), 7)]
    padded = bytes((7,)) + bytes(5) + block + bytes(7)
    for frames in (
        [(1, 0x8 | 0x20 | 0x4 | 0x1, padded)],
        [(1, 1, parts[0]), *((9, 0, part) for part in parts[1:-1]), (9, 4, parts[-1])],
    ):
        server, call = asked()
        for kind, flags, payload in frames:
            server.connection.data_received(frame(kind, flags, call.stream, payload))
        with pytest.raises(RpcError, match="not found"):
            await call.result(TIMEOUT)


async def test_a_connection_that_the_server_gives_up_is_closed_after_its_last_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "_CHECK_INTERVAL", 0.01)
    server, call = asked()
    server.connection.data_received(frame(7, 0, 0, call.stream.to_bytes(4, "big") + bytes(4)))
    await asyncio.sleep(0.05)
    assert not server.wire.aborted
    server.answer(call, b"answer")
    server.exchange()
    assert await call.result(TIMEOUT) == b"answer"
    await asyncio.sleep(0.05)
    assert server.wire.aborted


async def test_messages_of_a_stream_come_one_by_one() -> None:
    server = Server()
    call = server.call(b"one", last=False)
    call.write(b"two")
    server.exchange()
    assert bytes(server.bodies[call.stream]) == message(b"one") + message(b"two")
    assert not server.ended
    server.h2.send_headers(call.stream, HEAD)
    server.h2.send_data(call.stream, message(b"a"))
    server.exchange()
    received: list[bytes] = []
    listening = asyncio.get_running_loop().create_task(call.listen(received.append))
    await asyncio.sleep(0)
    assert received == [b"a"], "what came before somebody listened"
    server.h2.send_data(call.stream, message(b"") + message(b"c"))
    server.connection.data_received(server.h2.data_to_send())
    assert received == [b"a", b"", b"c"], "at once"
    server.h2.send_headers(call.stream, OK, end_stream=True)
    server.exchange()
    await listening
    with pytest.raises(RpcError, match="ended"):
        call.write(b"three")
    assert server.reset == [call.stream], "the server learns that nothing more follows"


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("grpc-status", "8"), ("grpc-message", "etcdserver: too many%3A 100%25 r%C3%A9sum")], "100% résum"),
        ([("grpc-status", "14")], "gRPC status 14"),
        ([("x-other", "1")], "without a gRPC status"),
        ([("grpc-status", "2"), ("grpc-message", "a%0A%1B[31mb")], r"^a\\n\\x1b\[31mb$"),
    ],
)
async def test_refusals(headers: list[tuple[str, str]], words: str) -> None:
    server = Server()
    trailers_only, after_headers = server.call(), server.call()
    server.exchange()
    server.h2.send_headers(trailers_only.stream, HEAD + headers, end_stream=True)
    server.h2.send_headers(after_headers.stream, HEAD)
    server.h2.send_headers(after_headers.stream, headers, end_stream=True)
    server.exchange()
    for call in (trailers_only, after_headers):
        with pytest.raises(RpcError, match=words):
            await call.result(TIMEOUT)


async def test_a_refusal_before_the_request_is_through() -> None:
    server = Server()
    server.exchange()
    call = server.call(bytes(1_000_000))
    server.exchange(read=False)
    server.h2.send_headers(
        call.stream, [*HEAD, ("grpc-status", "8"), ("grpc-message", "no")], end_stream=True
    )
    server.exchange()
    with pytest.raises(RpcError, match="no"):
        await call.result(TIMEOUT)
    assert server.reset == [call.stream]
    assert not server.connection.busy


async def test_ends_of_calls_leave_the_connection_alone() -> None:
    server = Server()
    late, cancelled, reset, other = (server.call() for _ in range(4))
    server.exchange()
    with pytest.raises(RpcError, match="deadline exceeded"):
        await late.result(0)
    waiting = asyncio.get_running_loop().create_task(cancelled.result(TIMEOUT))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    server.exchange()
    assert server.reset == [late.stream, cancelled.stream]
    server.h2.reset_stream(reset.stream, error_code=7)
    server.answer(other, b"answer")
    server.exchange()
    with pytest.raises(RpcError, match="reset by the server, code 7"):
        await reset.result(TIMEOUT)
    assert await other.result(TIMEOUT) == b"answer"
    assert server.connection.usable


async def test_a_server_that_goes_away_finishes_what_it_has_seen() -> None:
    server = Server()
    seen, unseen = server.call(), server.call()
    server.exchange()
    server.connection.data_received(b"\0\0\x08\x07\0\0\0\0\0" + seen.stream.to_bytes(4, "big") + bytes(4))
    assert not server.connection.usable
    with pytest.raises(RpcError, match="goes away"):
        await unseen.result(TIMEOUT)
    with pytest.raises(RpcError, match="no connection"):
        server.call()
    server.answer(seen, b"answer")
    server.exchange()
    assert await seen.result(TIMEOUT) == b"answer"


async def test_pings_are_answered_and_a_lost_connection_fails_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "_CHECK_INTERVAL", 0.01)
    server = Server()
    call = server.call()
    server.h2.ping(b"12345678")
    server.exchange()
    await asyncio.sleep(0.2)  # without another frame the answer leaves at a check, 0.1 s later
    server.exchange()
    assert server.pongs == 1
    server.connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(RpcError, match="etcd:2379: reset"):
        await call.result(TIMEOUT)
    assert not server.connection.usable


async def test_an_answer_goes_to_a_callback_once_and_the_earliest_deadline_counts() -> None:
    world = World(1)
    server = Server()
    server.connection.loop = Host(world, "client")  # whose deadlines come when the test says so
    answers: list[tuple[str, str]] = []

    def note(name: str, answer: bytes | RpcError) -> None:
        answers.append((name, str(answer)))

    calls = {name: server.call() for name in ("good", "bad", "slow", "middle", "quick")}
    timeouts = {"middle": 0.05, "quick": 0.01}
    for name, call in calls.items():
        call.answer(timeouts.get(name, TIMEOUT), partial(note, name))
    server.exchange()
    server.answer(calls["good"], b"answer")
    failed = ((":status", "200"), ("grpc-status", "9"), ("grpc-message", "no"))
    server.h2.send_headers(calls["bad"].stream, failed, end_stream=True)
    server.exchange()
    late = "deadline exceeded"
    expected: list[tuple[str, str]] = []
    for now, more in (
        (0.005, [("good", "b'answer'"), ("bad", "no")]),
        (0.02, [("quick", late)]),
        (0.06, [("middle", late)]),
    ):
        world.run(now)
        expected += more
        assert answers == expected
    server.exchange()
    assert server.reset == [calls["quick"].stream, calls["middle"].stream]
    server.connection.close()
    world.run(0.07)
    assert [name for name, _ in answers[4:]] == ["slow"]


async def test_what_a_listener_raises_ends_the_listening_only() -> None:
    server = Server()
    call, other = server.call(last=False), server.call()
    server.exchange()
    seen: list[bytes] = []

    def take(data: bytes) -> None:
        seen.append(data)
        raise LookupError(data)

    listening = asyncio.get_running_loop().create_task(call.listen(take))
    await asyncio.sleep(0)
    server.h2.send_headers(call.stream, HEAD)
    server.h2.send_data(call.stream, message(b"a") + message(b"b"))
    server.answer(other, b"answer")
    server.exchange()
    with pytest.raises(LookupError, match="a"):
        await listening
    assert seen == [b"a"]
    assert await other.result(TIMEOUT) == b"answer"


async def test_a_stream_goes_on_before_a_call_whose_end_came_earlier() -> None:
    server = Server()
    call, watch = server.call(), server.call(last=False)
    server.exchange()
    order: list[str] = []

    def note(what: str) -> None:
        order.append(what)
        asyncio.get_running_loop().call_soon(order.append, f"what follows from the {what}")

    async def wait() -> None:
        await call.result(TIMEOUT)
        note("answer")

    loop = asyncio.get_running_loop()
    waiting = loop.create_task(wait())
    listening = loop.create_task(watch.listen(lambda _: note("message")))
    await asyncio.sleep(0)
    server.answer(call, b"answer")
    server.h2.send_headers(watch.stream, HEAD)
    server.h2.send_data(watch.stream, message(b"event"))
    server.connection.data_received(server.h2.data_to_send())
    await waiting
    assert order[:3] == ["message", "what follows from the message", "answer"]
    watch.cancel()
    with pytest.raises(RpcError, match="cancelled"):
        await listening


@pytest.mark.parametrize(
    "end",
    [
        lambda connection: connection.data_received(frame(3, 0, 1, bytes(4))),
        lambda connection: connection.data_received(frame(8, 0, 1, b"\x7f\xff\xff\xff")),
        lambda connection: connection.data_received(frame(7, 0, 0, bytes(8))),
        lambda connection: connection.connection_lost(None),
        lambda connection: connection.close(),
        None,
    ],
    ids=["reset", "window", "goes away", "lost", "closed", "late"],
)
async def test_what_a_callback_raises_is_not_laid_to_the_server(
    end: Callable[[http2.Http2Connection], None] | None,
) -> None:
    """It ran in the parser, which took a ValueError for what the server had sent, and in loops over calls."""
    loop = asyncio.get_running_loop()
    raised: list[Exception] = []
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    server = Server()
    answered: asyncio.Future[bytes | RpcError] = loop.create_future()

    def fail(_: bytes | RpcError) -> None:
        raise ValueError("a fault of ours")

    timeout = TIMEOUT if end is not None else 0.0
    first, second = server.call(), server.call()
    first.answer(timeout, fail)
    second.answer(timeout, answered.set_result)
    server.exchange()
    if end is not None:
        end(server.connection)
        assert not answered.done(), "no callback before the connection has done its own"
    if server.connection.usable and end is not None:
        server.answer(second, b"answer")
        server.connection.data_received(server.h2.data_to_send())
        assert await asyncio.wait_for(answered, TIMEOUT) == b"answer"
    else:
        assert isinstance(await asyncio.wait_for(answered, TIMEOUT), RpcError)
    assert [str(error) for error in raised] == ["a fault of ours"]


@one_by_one(
    ("frames", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Is this an etcd's client URL?"),
        (b"\0\0\x05\0\0\0\0\0\x01" + message(b"", compressed=1), "compressed"),
        (b"\0\0\x01\x01\x04\0\0\0\x01\xff", "not understood"),
        (b"\0\0\x01\x01\x00\0\0\0\x01\x88" + b"\0\0\0\0\0\0\0\0\x01", "headers without their end"),
        (b"\0\0\0\x09\0\0\0\0\x01", "a continuation of nothing"),
        (b"\0\0\x01\x08\0\0\0\0\x01\0", "not understood"),
        (b"\0\0\x01\x03\0\0\0\0\x01\0", "not understood"),  # found by fuzzing: the call never ended
        (frame(1, 0, 1, b"\x88") + frame(9, 0, 1, bytes(16_000)) * 5, "headers of more than 65536 bytes"),
        (frame(0, 0, 1, b"\0\xff\xff\xff\xff"), "a message of 4294967295 bytes"),
        (frame(0, 0x8, 1, b"\x05abcd"), "padding"),
        (frame(0, 0x8, 1), "not understood"),
        (frame(1, 0x8 | 0x4, 1, b"\x05abcd"), "padding"),
        (frame(0, 0, 0, b"abcd"), "stream 0"),
        (frame(1, 0x4, 0, b"\x88"), "stream 0"),
        (frame(3, 0, 3, bytes(4)), "stream 3"),  # not opened yet
        (frame(0, 0, 2, b"abcd"), "stream 2"),  # a push, which was not allowed
        (frame(8, 0, 0, bytes(4)), "window"),
        (frame(8, 0, 0, b"\x7f\xff\xff\xff"), "window"),
        (frame(4, 0, 1), "settings"),
        (frame(4, 1, 0, bytes(6)), "settings"),
        (frame(4, 0, 0, bytes(5)), "not understood"),
        (frame(4, 0, 0, b"\0\x04\x80\0\0\0"), "settings"),
        (frame(4, 0, 0, b"\0\x05\0\0\0\1"), "settings"),
        (frame(6, 0, 0, bytes(7)), "ping"),
    ],
)
async def test_garbage_ends_the_connection(frames: bytes, words: str) -> None:
    server = Server()
    call = server.call()
    server.connection.data_received(frames)
    with pytest.raises(RpcError, match=words):
        await call.result(TIMEOUT)
    assert server.wire.aborted
