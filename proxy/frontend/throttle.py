"""Decides whether zketcd reads from a client, and counts its part of the server's load."""

from proxy.frontend.inbound import Inbound
from proxy.frontend.load import Load
from proxy.frontend.order import Order
from proxy.frontend.outbound import Outbound

_EARLY = 64 << 10  # bytes before the session exists
_EARLY_PIECES = 100


class Throttle:
    """Pauses reading from a client while too many of its requests wait, or too many of all clients."""

    __slots__ = ("_inbound", "_load", "_order", "_outbound", "_requests", "_size")

    def __init__(self, load: Load, order: Order, inbound: Inbound, outbound: Outbound) -> None:
        self._load = load
        self._order = order
        self._inbound = inbound
        self._outbound = outbound
        self._requests = 0  # of this client in the load
        self._size = 0

    def read_early(self) -> None:
        """Before the session exists, keep reading up to a limit.

        A closed connection is noticed only by reading from it.
        """
        parked = self._inbound.parked
        if len(parked) > _EARLY_PIECES or sum(len(data) for data, _ in parked) > _EARLY:
            self._outbound.pause_reading()
        else:
            self._outbound.resume_reading()

    def taken(self) -> None:
        """Requests were received that wait: if these are too many, pause until enough are answered."""
        self.weigh()
        if self._order.queue.is_long or self._load.is_too_much:
            self._outbound.pause_reading()

    def weigh(self) -> None:
        """Count this client's waiting requests in the load, unless it does not read its replies."""
        queue = self._order.queue
        requests = 0 if self._order.replies.is_paused else queue.count
        load = self._load
        load.requests += requests - self._requests
        load.size += queue.size - self._size
        self._requests = requests
        self._size = queue.size

    def resume(self) -> None:
        """Read from the client again, unless too many requests wait, it does not read, or it is closing."""
        order = self._order
        queue = order.queue
        if self._inbound.parked or order.replies.is_paused or order.ready.close:
            return
        if not queue.is_long and not (queue.count and self._load.is_too_much):
            self._outbound.resume_reading()
