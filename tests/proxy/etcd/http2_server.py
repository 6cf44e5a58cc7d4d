"""The HTTP/2 connection under test, with the h2 library as its server."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import h2.config
import h2.connection
import h2.events
import h2.settings

from proxy.etcd.http2 import Http2Call, Http2Connection, request_headers

OK = [("grpc-status", "0")]
HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TIMEOUT = 5.0


def message(data: bytes, compressed: int = 0) -> bytes:
    """A gRPC message on the wire."""
    return bytes([compressed]) + len(data).to_bytes(4, "big") + data


class Wire(asyncio.Transport):
    """A transport whose other end the test reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True


class Server:
    """A connection under test, and its server."""

    def __init__(self, window: int = 65_535) -> None:
        self.connection = Http2Connection(asyncio.get_running_loop(), "etcd:2379")
        self.wire = Wire()
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        initial = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=initial)
        self.h2.initiate_connection()
        self.bodies: dict[int, bytearray] = {}
        self.requests: dict[int, dict[str, str]] = {}
        self.ended: list[int] = []
        self.reset: list[int] = []
        self.pongs = 0
        self.connection.connection_made(self.wire)

    def exchange(self, feed: Callable[[bytes], None] | None = None, *, read: bool = True) -> None:
        """Let both sides say all they have to say. With `read` the server makes room for what it got."""
        while True:
            sent = bytes(self.wire.written)
            self.wire.written.clear()
            for event in self.h2.receive_data(sent) if sent else ():
                self._see(event, read)
            answer = self.h2.data_to_send()
            if not sent and not answer:
                return
            if answer:
                (feed or self.connection.data_received)(answer)

    def _see(self, event: h2.events.Event, read: bool) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests[event.stream_id] = dict(cast(Any, event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
            if read:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.append(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.reset.append(event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1

    def call(self, request: bytes = b"", *, last: bool = True) -> Http2Call:
        """Send a request."""
        call = self.connection.open(request_headers("http", "etcd:2379", "/a/B", 5.0, (("token", "x"),)))
        self.connection.sender.send(call, request, last=last)
        return call

    def answer(self, call: Http2Call, *messages: bytes, padding: int | None = None) -> None:
        """Answer a call with success."""
        self.h2.send_headers(call.stream, HEAD)
        for data in messages:
            self.h2.send_data(call.stream, message(data), pad_length=padding)
        self.h2.send_headers(call.stream, OK, end_stream=True)


def asked(request: bytes = b"", *, last: bool = True) -> tuple[Server, Http2Call]:
    """A server that has got a request."""
    server = Server()
    call = server.call(request, last=last)
    server.exchange()
    return server, call


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
