"""How etcd answers: how long calls take, and how they fail. Pure; times are nanoseconds, as arguments."""

from collections import Counter

from proxy.etcd.model import EtcdError, EtcdNoSpace, EtcdRefused
from proxy.support.latency import Histogram


class Calls:
    """Calls by the name of their method ("Txn", "Range"). Streams are not counted: they stay open."""

    __slots__ = ("failures", "times")

    def __init__(self) -> None:
        self.times: dict[str, Histogram] = {}  # of those that were answered
        #: By method and kind: "refused", "unknown", "no space".
        self.failures: Counter[tuple[str, str]] = Counter()

    def answered(self, method: str, nanos: int) -> None:
        """A call has its answer."""
        times = self.times.get(method)
        if times is None:
            times = self.times[method] = Histogram()
        times.note(nanos)

    def failed(self, method: str, error: EtcdError) -> None:
        """A call has failed: refused by etcd for certain, or it is not known whether etcd got it."""
        kind = "refused" if isinstance(error, EtcdRefused) else "unknown"
        self.failures[method, "no space" if isinstance(error, EtcdNoSpace) else kind] += 1
