"""A collector of OpenTelemetry's: takes spans by OTLP over HTTP on 127.0.0.1 and keeps them."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class CollectedSpan(NamedTuple):
    """A span as it arrived. Times are nanoseconds since 1970."""

    name: str
    kind: int
    trace_id: int
    parent: int  # 0 for none
    state: str
    began: int
    ended: int
    attributes: dict[str, str | int]
    events: list[tuple[str, int]]
    status: tuple[int, str]
    resource: dict[str, str | int]


class Collector:
    """Listens until it is closed."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/traces":
                    collector.spans += _spans_of(ExportTraceServiceRequest.FromString(body))
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _spans_of(request: ExportTraceServiceRequest) -> list[CollectedSpan]:
    return [
        CollectedSpan(
            span.name,
            span.kind,
            int.from_bytes(span.trace_id, "big"),
            int.from_bytes(span.parent_span_id, "big"),
            span.trace_state,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _values(span.attributes),
            [(event.name, event.time_unix_nano) for event in span.events],
            (span.status.code, span.status.message),
            _values(of_resource.resource.attributes),
        )
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _values(pairs: Any) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
