"""Which requests leave a span, and what it says. A fake tracer keeps them."""

import struct

import pytest

from codec.client import PING, auth, connect, create, framed, get, packet, sasl
from codec.constants import ErrorCode, OpCode, Xid
from codec.jute import pack_string
from codec.trace_context import TraceContext
from lab.fakes.connection import Client, FakeHost, FakeLoop, connected
from proxy.frontend.authentication import SaslAnswer
from proxy.frontend.identity import ClientIdentity
from proxy.frontend.request_logs import Stages
from proxy.frontend.traced import Traces, TraceSources
from proxy.state.pause import Lengths
from proxy.traces.span import Decision, Span, Tracer


class FakeTracer:
    """Wants every `each`-th request."""

    def __init__(self, each: int) -> None:
        self._each = each
        self.asked = 0
        self.spans: list[Span] = []

    def decide(self, context: TraceContext | None) -> Decision | None:
        self.asked += 1
        return None if self.asked % self._each else Decision(self.asked, context)

    def record(self, decision: Decision, span: Span) -> None:
        self.spans.append(span)


def _host(each: int = 1) -> tuple[FakeHost, FakeTracer]:
    tracer = FakeTracer(each)
    host = FakeHost(FakeLoop())
    sources = TraceSources(lambda: 9, lambda: Stages(0, 0), lambda: 77)
    host.traces = Traces(Tracer(tracer.decide, tracer.record), sources, host.clock.perf_counter_ns)
    return host, tracer


def _traced(each: int = 1) -> tuple[Client, FakeTracer]:
    host, tracer = _host(each)
    return connected(host), tracer


def test_a_request_behind_the_connect_request_has_a_span() -> None:
    host, tracer = _host()
    client = Client(host=host)
    client.send(connect(4000) + packet(1, get("/")))
    client.establish()
    client.loop.run()
    assert [span.name for span in tracer.spans] == ["GET_DATA"]


def test_requests_that_come_together() -> None:
    client, tracer = _traced()
    client.send(
        packet(1, create("/a")),
        packet(2, get("/a")),  # behind a write: answered as it is applied
        packet(3, get("/none")),
        framed(4, OpCode.CREATE, b"\0"),  # cannot be read
        PING,
    )
    assert [(span.name, span.attributes["zookeeper.xid"]) for span in tracer.spans] == [("CREATE", 4)]
    client.commit()
    assert client.outcomes()[:3] == [(1, 0), (2, 0), (3, ErrorCode.NO_NODE)]
    told = {span.attributes["zookeeper.xid"]: span for span in tracer.spans}
    assert sorted(map(str, told)) == ["1", "2", "3", "4"]
    assert told[1].attributes["zookeeper.path"] == "/a"
    assert told[1].attributes["zketcd.log.position"] == 77
    assert [name for name, _ in told[1].events] == ["sent to etcd", "applying"]
    assert told[3].attributes["error.type"] == "NO_NODE"
    assert told[3].failed == ""
    for span in tracer.spans:
        moments = [span.began, *(at for _, at in span.events), span.ended]
        assert moments == sorted(moments)


def test_a_long_path_is_cut() -> None:
    """Thousands of spans wait for a collector that does not answer."""
    client, tracer = _traced()
    client.send(packet(1, create("/" + "x" * 500)))
    client.commit()
    client.send(packet(2, get("/" + "y" * 500)))
    found = [span.attributes["zookeeper.path"] for span in tracer.spans]
    assert found == ["/" + "x" * 255 + "...", "/" + "y" * 255 + "..."]


def test_a_multi_says_how_many_parts_it_has() -> None:
    client, tracer = _traced()
    part = struct.pack(">i?i", OpCode.CHECK, False, -1) + pack_string("/") + struct.pack(">i", -1)
    client.send(framed(1, OpCode.MULTI, part * 2 + struct.pack(">i?i", -1, True, -1)))
    client.commit()
    (span,) = tracer.spans
    assert (span.name, span.attributes["db.operation.batch.size"]) == ("MULTI", 2)
    assert "zookeeper.path" not in span.attributes


def test_operators_see_traced_requests_that_wait_as_all_others() -> None:
    client, _ = _traced()
    client.send(packet(1, create("/a")) + packet(2, get("/a")) + packet(3, create("/b")))
    waiting = client.connection.order.waiting(5)
    assert [(each.opcode, each.path, each.in_log) for each in waiting] == [
        (OpCode.CREATE, "/a", True),
        (OpCode.GET_DATA, None, False),
        (OpCode.CREATE, "/b", True),
    ]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_long_read_has_one_span_and_none_if_its_client_goes(is_lost: bool) -> None:
    """It is begun twice: the first time at once, to find that it is long."""
    client, tracer = _traced()
    client.send(packet(0, create("/a")) + packet(0, create("/b")))
    client.commit()
    tracer.spans.clear()
    client.host.reading.pause.lengths = Lengths(every=1, at_once=-1)
    client.connection.data_received(framed(1, OpCode.GET_CHILDREN, pack_string("/") + b"\0"))
    client.loop.turn()
    assert tracer.spans == []
    if is_lost:
        client.lose()
    client.loop.run()
    assert [span.name for span in tracer.spans] == ["GET_CHILDREN"][is_lost:]


@pytest.mark.parametrize(
    ("request_", "err"),
    [
        (packet(Xid.AUTH, auth("digest", b"user:word")), ErrorCode.OK),
        (packet(Xid.AUTH, auth("none", b"")), ErrorCode.AUTH_FAILED),
        (framed(Xid.AUTH, OpCode.AUTH), ErrorCode.AUTH_FAILED),  # cut: no answer, and the connection ends
        (packet(1, sasl(None)), ErrorCode.AUTH_FAILED),
        (packet(1, sasl(b"")), ErrorCode.OK),
        (framed(1, 12345), ErrorCode.UNIMPLEMENTED),
    ],
)
def test_the_span_of_what_concerns_the_connection_has_its_error(request_: bytes, err: ErrorCode) -> None:
    client, tracer = _traced()
    client.send(request_)
    client.loop.run()
    (span,) = tracer.spans
    assert span.attributes.get("error.type") == (err.name if err else None)


def test_a_token_that_a_thread_answers_has_a_span_when_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClientIdentity, "negotiate", lambda _self, _token: None)
    client, tracer = _traced()
    client.send(packet(1, sasl(b"")))
    assert tracer.spans == []
    client.connection.negotiated(SaslAnswer(ErrorCode.AUTH_FAILED, None))
    (span,) = tracer.spans
    assert span.attributes["error.type"] == "AUTH_FAILED"


def test_only_what_the_tracer_wants_has_a_span() -> None:
    client, tracer = _traced(each=3)
    client.send(*(packet(xid, get("/")) for xid in range(1, 10)))
    assert [span.attributes["zookeeper.xid"] for span in tracer.spans] == [3, 6, 9]
    assert client.outcomes() == [(xid, 0) for xid in range(1, 10)]
