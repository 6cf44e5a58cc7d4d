"""What a traced request leaves behind, and who decides which are traced. Pure: nothing of OpenTelemetry's."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from codec.trace_context import TraceContext

Attributes: TypeAlias = Mapping[str, str | int]


class Decision(NamedTuple):
    """That a request is traced: its trace, and the client's span if it has sent one."""

    trace_id: int
    parent: TraceContext | None


class Span(NamedTuple):
    """A request that is answered. Times are nanoseconds of one monotonic clock."""

    name: str
    began: int
    ended: int
    attributes: Attributes
    events: Sequence[tuple[str, int]] = ()  # what happened in between, and when
    failed: str = ""  # why it is an error of this server; "" if it is none


class Tracer(NamedTuple):
    """Decides which requests are traced, and takes their spans: methods of `otel.OtelTracer`."""

    #: Whether a request that came with this context is traced; None if not.
    decide: Callable[[TraceContext | None], Decision | None]
    #: Takes a span; never blocks.
    record: Callable[[Decision, Span], None]
