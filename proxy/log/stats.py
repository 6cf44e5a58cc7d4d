"""What the log counts, for metrics. Pure: numbers that only grow, added to where things happen."""

from collections import Counter

from proxy.support.latency import Histogram, RoundTrip


class Stats:
    """Since the start of this server."""

    __slots__ = (
        "applied_bytes",
        "applied_entries",
        "applied_requests",
        "disagreements",
        "entry_requests",
        "growth_refused",
        "incarnations",
        "reloads",
        "resent",
        "round_trip",
        "sent_bytes",
        "sent_entries",
        "sent_requests",
        "throttled",
        "voided",
    )

    def __init__(self) -> None:
        self.sent_entries = 0
        self.sent_bytes = 0
        self.sent_requests = 0
        self.entry_requests = Histogram()  # requests of each entry sent
        self.round_trip = RoundTrip()  # of Txns, by which the window is chosen
        self.applied_entries = 0  # of all proxies
        self.applied_bytes = 0
        self.applied_requests = 0
        self.resent = 0  # Txns sent again since their outcome was unknown
        self.voided = 0  # own entries that were replaced, after a refusal, and count as their replacement
        self.growth_refused = 0  # requests refused while etcd is nearly full
        self.throttled: Counter[str] = Counter()  # requests of this proxy's clients, by the budget's path
        self.incarnations = 0
        self.reloads = 0  # times that the state was loaded anew
        self.disagreements = 0  # digests in other proxies' entries that differ from ours
