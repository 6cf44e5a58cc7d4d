"""The actions of a connection that follow from a call of its `Order`. Data only. Pure."""

from typing import NamedTuple

from proxy.frontend.waiting import Write


class SlowRead(NamedTuple):
    """A read that takes long: `Order.answer_slow_read` answers it in slices."""

    now: bool  # it has to see the current state: no entry is applied until it is answered


class Ready:
    """Each `Order` has one, and fills it. The connection removes packets, requests and the slow read."""

    __slots__ = ("again", "close", "packets", "requests", "slow_read")

    def __init__(self, packets: list[bytes]) -> None:
        #: To be sent, in this order; always the same list.
        self.packets = packets
        #: For the log, in this order.
        self.requests: list[Write] = []
        self.slow_read: SlowRead | None = None
        #: `Order.advance` has to be called in another turn of the loop, after `packets` are sent.
        self.again = False
        #: The connection ends after `packets`. Nothing more is answered, and no more frames are taken.
        self.close = False

    def take_requests(self) -> list[Write]:
        """Remove and return the requests."""
        requests, self.requests = self.requests, []
        return requests

    def take_slow_read(self) -> SlowRead:
        """Remove and return the slow read."""
        slow_read, self.slow_read = self.slow_read, None
        assert slow_read is not None
        return slow_read
