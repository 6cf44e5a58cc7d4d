"""Whether one client is read from, and what it adds to the load of the server."""

from proxy.frontend.inbound import Inbound
from proxy.frontend.load import Load
from proxy.frontend.order import Order
from proxy.frontend.outbound import Outbound


class Throttle:
    """Pauses reading from a client while too much of its own waits, or too much of all clients."""

    __slots__ = ("_inbound", "_load", "_order", "_outbound", "_requests", "_size")

    def __init__(self, load: Load, order: Order, inbound: Inbound, outbound: Outbound) -> None:
        self._load = load
        self._order = order
        self._inbound = inbound
        self._outbound = outbound
        self._requests = 0  # what this client adds to the load
        self._size = 0

    def taken(self) -> None:
        """Requests were taken that wait: if that is too much, pause until all is answered, or less waits."""
        self.weigh()
        if self._order.queue.is_long or self._load.is_too_much:
            self._outbound.pause_reading()

    def weigh(self) -> None:
        """Let the load count what waits here; not for a client that does not read its replies."""
        queue = self._order.queue
        requests = 0 if self._order.replies.is_paused else queue.count
        load = self._load
        load.requests += requests - self._requests
        load.size += queue.size - self._size
        self._requests = requests
        self._size = queue.size

    def resume(self) -> None:
        """Read from the client again, unless too much waits, it does not read, or it is to be closed."""
        order = self._order
        queue = order.queue
        if self._inbound.parked or order.replies.is_paused or order.ready.close:
            return
        if not queue.is_long and not (queue.count and self._load.is_too_much):
            self._outbound.resume_reading()
