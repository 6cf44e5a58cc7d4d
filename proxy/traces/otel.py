"""Sends spans by the OpenTelemetry SDK: OTLP over HTTP, in batches, from a thread of the SDK's.

The only module that imports opentelemetry, and imported only when `--traces on` asks for it. All settings are
the SDK's own variables (OTEL_*).
"""

import logging
import os
import threading
from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.trace.sampling import Decision as SamplerDecision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from codec.trace_context import TraceContext
from proxy.support.environment import HOST
from proxy.support.throttled_log import ThrottledLog
from proxy.support.user import host_name
from proxy.traces.span import Decision, Span

log = logging.getLogger(__name__)

_ROOT = Context()
# Seconds that the last spans may take when the server stops.
_SHUTDOWN = 3.0


class OtelTracer:
    """The tracer of one server."""

    def __init__(self, address: str, version: str) -> None:
        """`address`: HOST:PORT of this server. Raises ValueError for a variable that cannot be."""
        resource = _resource(address, version)
        self._sampler = TracerProvider(resource=resource, shutdown_on_exit=False).sampler
        self._ids = _DecidedIds()
        # What is given to it is sampled already.
        self._provider = TracerProvider(
            ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("zketcd", version)

    def decide(self, context: TraceContext | None) -> Decision | None:
        """Whether a request that came with this context is traced, by the SDK's sampler; None if not."""
        if context is None:
            trace_id, parent = self._ids.generate_random(), _ROOT
        else:
            trace_id, parent = context.trace_id, _context_of(context)
        result = self._sampler.should_sample(parent, trace_id, "request", SpanKind.SERVER)
        return Decision(trace_id, context) if result.decision is SamplerDecision.RECORD_AND_SAMPLE else None

    def record(self, decision: Decision, span: Span) -> None:
        """Send a span, at some time. Never blocks: the SDK drops spans if its queue is full."""
        self._ids.decided = decision.trace_id
        to_wall = HOST.clock.time_ns() - HOST.clock.perf_counter_ns()
        parent = decision.parent
        made = self._tracer.start_span(
            span.name,
            _ROOT if parent is None else _context_of(parent),
            SpanKind.SERVER,
            span.attributes,
            start_time=span.began + to_wall,
        )
        for name, at in span.events:
            made.add_event(name, timestamp=at + to_wall)
        if span.failed:
            made.set_status(Status(StatusCode.ERROR, span.failed))
        made.end(span.ended + to_wall)

    def shutdown(self) -> None:
        """Send what is left; blocks, but not for long if the collector does not take it."""
        # Not in a pool of threads, whose end is waited for: a collector may take 10 s to be silent.
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(_SHUTDOWN)


class _DecidedIds(RandomIdGenerator):
    """Gives the trace's id that was decided on to the span that is made next."""

    decided = 0

    def generate_random(self) -> int:
        """A random trace's id, for a decision."""
        return super().generate_trace_id()

    def generate_trace_id(self) -> int:
        """The id of the trace that was decided on, which the SDK asks for when it makes a span."""
        return self.decided


class _Complaints(logging.Handler):
    """What the SDK has to say, such as that it does not reach the collector: a line now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._throttled_log = ThrottledLog(log)

    def emit(self, record: logging.LogRecord) -> None:
        """Report it, without a traceback."""
        self._throttled_log.warn("traces: %s", record.getMessage())


def from_environment(
    address: str, version: str, environment: Mapping[str, str] = os.environ
) -> OtelTracer | None:
    """The tracer that the variables describe; None if they switch the SDK off.

    `address`: HOST:PORT of this server. Raises ValueError for what is not offered.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    for variables, offered in (
        (("OTEL_TRACES_EXPORTER",), "otlp"),
        (("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"),
    ):
        for variable in variables:
            wanted = environment.get(variable, "").strip()
            if wanted and wanted != offered:
                raise ValueError(f"{variable}={wanted}: only {offered} is offered")
    sdk = logging.getLogger("opentelemetry")
    if sdk.propagate:
        sdk.addHandler(_Complaints())
        sdk.propagate = False
    try:
        return OtelTracer(address, version)
    except ValueError as error:
        raise ValueError(f"a variable OTEL_* has a value that cannot be: {error}") from None


def _resource(address: str, version: str) -> Resource:
    """What this process is; the variables have the last word."""
    known = {
        SERVICE_NAME: "zketcd",
        SERVICE_VERSION: version,
        SERVICE_INSTANCE_ID: f"{host_name()} {address}",
    }
    told = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in known.items() if name not in told})


def _context_of(context: TraceContext) -> Context:
    state = TraceState.from_header([context.state]) if context.state else None
    span = SpanContext(context.trace_id, context.span_id, True, TraceFlags(context.flags), state)
    return set_span_in_context(NonRecordingSpan(span), _ROOT)
