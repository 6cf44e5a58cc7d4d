"""Traces of a real proxy, sent to a collector."""

import struct
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from codec import client as zk
from codec.client import PING, close, create, framed, get, packet
from codec.constants import ErrorCode, OpCode, ProtocolVersion, Xid
from codec.jute import pack_buffer
from lab.oracle.wire import Connection, Reply, Session
from lab.servers import EtcdServer, ZketcdServer, free_port, wait_until
from lab.servers.collector import CollectedSpan, Collector

pytestmark = pytest.mark.real

_SERVER = 2  # SPAN_KIND_SERVER
_TRACE = 0x0AF7651916CD43DD8448EB211C80319C
_CLIENT_SPAN = 0xB7AD6B7169203331


class RawClient(Connection):
    """A client of protocol version 0 or 12, with a session."""

    def __init__(self, port: int, version: int = 0) -> None:
        super().__init__(port, 60.0)
        self._traced = version == ProtocolVersion.TRACING
        fields = struct.pack(">qiq", 0, 10_000, 0) + pack_buffer(bytes(16)) + b"\0"
        asked = bytes(2) if self._traced else b""
        self.send(struct.pack(">ii", 45, version) + asked + fields)
        answer = self.receive_session()
        assert isinstance(answer, Session)
        assert answer.protocol == version
        self.session = answer.id

    def ask(self, request: bytes, context: bytes | None = None) -> Reply:
        """Send a request, and wait for its reply."""
        behind = b"" if not self._traced else b"\0" if context is None else b"\1" + context
        self.send(request + behind)
        reply = self.receive()
        assert isinstance(reply, Reply)
        return reply


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as listening:
        yield listening


@pytest.fixture(scope="module")
def server(etcd_server: EtcdServer, collector: Collector) -> Iterator[ZketcdServer]:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    with ZketcdServer(
        etcd_server.endpoint, prefix="/traces", traces="on", keeper_extensions="on", variables=variables
    ) as running:
        yield running


def _spans(collector: Collector, session: int, count: int) -> list[CollectedSpan]:
    """Those of a session, once they are there."""

    def arrived() -> list[CollectedSpan]:
        text = f"0x{session:x}"
        return [span for span in list(collector.spans) if span.attributes["zookeeper.session"] == text]

    wait_until(lambda: len(arrived()) >= count, "the spans", 60)
    return sorted(arrived(), key=lambda span: (span.began, span.ended))


def test_each_request_has_a_span(server: ZketcdServer, collector: Collector) -> None:
    began = time.time_ns()
    with closing(RawClient(server.port)) as client:
        client.ask(packet(1, create("/a")))
        client.ask(packet(2, get("/a")))
        client.ask(packet(3, get("/none")))
        client.ask(packet(Xid.AUTH, zk.auth("digest", b"me:word")))
        client.ask(PING)
        client.ask(framed(4, OpCode.MULTI, struct.pack(">ibi", -1, 1, -1)))
        zxid = client.ask(packet(5, close())).zxid
        session = client.session
    created, read, missing, auth, multi, closed = _spans(collector, session, 6)
    assert [span.name for span in (created, read, missing, auth, multi, closed)] == [
        *("CREATE", "GET_DATA", "GET_DATA", "AUTH", "MULTI", "CLOSE_SESSION")
    ]
    for span in (created, read, missing, auth, multi, closed):
        assert span.kind == _SERVER
        assert span.parent == 0
        assert began <= span.began <= span.ended <= time.time_ns()
        assert span.attributes["client.address"] == "127.0.0.1"
        assert span.resource["service.name"] == "zketcd"
        assert str(span.resource["service.instance.id"]).endswith(server.address)
        assert span.resource["deployment.environment.name"] == "test"
    assert created.attributes["zookeeper.path"] == "/a"
    assert created.attributes["zookeeper.xid"] == 1
    assert int(created.attributes["zketcd.log.position"]) > 0
    assert [name for name, _ in created.events] == ["sent to etcd", "applying"]
    moments = [created.began, *(at for _, at in created.events), created.ended]
    assert moments == sorted(moments)
    assert [name for name, _ in read.events] == ["read"]
    assert "error.type" not in read.attributes
    assert missing.attributes["error.type"] == "NO_NODE"
    assert missing.attributes["zookeeper.error"] == ErrorCode.NO_NODE
    assert missing.attributes["zookeeper.path"] == "/none"
    assert missing.status[0] == 0  # a client's error, not this server's
    assert closed.attributes["zookeeper.zxid"] == zxid


def test_a_span_has_the_clients_for_its_parent(server: ZketcdServer, collector: Collector) -> None:
    context = b"0af76519-16cd-43dd-8448-eb211c80319c\n%d\nvendor=1\n%d\n"
    with closing(RawClient(server.port, ProtocolVersion.TRACING)) as client:
        client.ask(packet(1, create("/b")), context % (_CLIENT_SPAN, 1))
        client.ask(packet(2, get("/b")), context % (_CLIENT_SPAN, 0))  # its trace is not sampled
        client.ask(packet(3, get("/b")), context % (_CLIENT_SPAN, 3))
        client.ask(packet(4, get("/b")))
        client.ask(packet(5, get("/b")), b"no context\n\n\n\n")
        session = client.session
    spans = _spans(collector, session, 4)
    assert [span.attributes["zookeeper.xid"] for span in spans] == [1, 3, 4, 5]
    assert [(span.trace_id, span.parent, span.state) for span in spans[:2]] == [
        (_TRACE, _CLIENT_SPAN, "vendor=1")
    ] * 2
    assert all(span.trace_id != _TRACE and span.parent == 0 for span in spans[2:])


def test_a_context_without_traces(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with (
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, keeper_extensions="on") as server,
        closing(RawClient(server.port, ProtocolVersion.TRACING)) as client,
    ):
        context = b"0af76519-16cd-43dd-8448-eb211c80319c\n7\n\n1\n"
        assert client.ask(packet(1, create("/c")), context).err == 0
        assert client.ask(packet(2, get("/c"))).err == 0


def test_a_collector_that_is_not_there(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_BSP_SCHEDULE_DELAY": "10",
    }
    with ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, traces="on", variables=variables) as server:
        with closing(RawClient(server.port)) as client:
            xid = 0

            def complained() -> bool:
                nonlocal xid
                xid += 1
                assert client.ask(packet(xid, get("/"))).err == 0
                return "proxy.traces.otel: traces: " in server.log_text()

            wait_until(complained, "a line on the collector", 60)
            for more in range(xid, xid + 100):
                assert client.ask(packet(more, get("/"))).err == 0
        assert server.stop() == 0
        assert "Traceback" not in server.log_text()
