"""What the log counts, for metrics. Pure: numbers that only grow, added to where things happen."""

from collections import Counter
from dataclasses import dataclass, field

from proxy.support.latency import Histogram, RoundTrip


@dataclass(slots=True)
class Stats:
    """Since the start of this server."""

    sent_entries: int = 0
    sent_bytes: int = 0
    sent_requests: int = 0
    entry_requests: Histogram = field(default_factory=Histogram)  # requests of each entry sent
    round_trip: RoundTrip = field(default_factory=RoundTrip)  # of Txns, by which the window is chosen
    applied_entries: int = 0  # of all proxies
    applied_bytes: int = 0
    applied_requests: int = 0
    resent: int = 0  # Txns sent again since their outcome was unknown
    voided: int = 0  # own entries that were replaced, after a refusal, and count as their replacement
    growth_refused: int = 0  # requests refused while etcd is nearly full
    # Requests of this proxy's clients, by the path of the budget that has refused them.
    throttled: Counter[str] = field(default_factory=Counter)
    incarnations: int = 0
    reloads: int = 0  # times that the state was loaded anew
    disagreements: int = 0  # digests in other proxies' entries that differ from ours
