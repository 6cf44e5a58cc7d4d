"""The recorder of a history.

The caller says what time it is; records stay in the order in which they come.
"""

from collections.abc import Iterable

from proof.history.records import (
    Attached,
    Disconnected,
    Event,
    Expired,
    Invoked,
    Lost,
    Opened,
    Record,
    Replied,
    Reply,
    Request,
)


class History:
    """What clients saw. With clients in several threads each method needs the callers' common lock."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Continue with these records, the first of them the oldest."""
        self.records: list[Record] = list(records)
        numbers = (record.call for record in self.records if isinstance(record, Invoked | Replied | Lost))
        self._calls = 1 + max(numbers, default=-1)

    def __len__(self) -> int:
        return len(self.records)

    def opened(self, time: int, session: int, timeout_ms: int = 0, process: str = "") -> None:
        """A session began on a new connection."""
        self.records.append(Opened(time, session, timeout_ms, process))

    def attached(self, time: int, session: int) -> None:
        """A session continues on a new connection."""
        self.records.append(Attached(time, session))

    def disconnected(self, time: int, session: int) -> None:
        """A session's connection broke."""
        self.records.append(Disconnected(time, session))

    def expired(self, time: int, session: int) -> None:
        """The server said that a session is over."""
        self.records.append(Expired(time, session))

    def invoke(self, time: int, session: int, request: Request) -> int:
        """A request is about to be sent; returns the call's number."""
        call = self._calls
        self._calls += 1
        self.records.append(Invoked(time, session, call, request))
        return call

    def reply(self, time: int, call: int, reply: Reply) -> None:
        """A call was answered."""
        self.records.append(Replied(time, call, reply))

    def lost(self, time: int, call: int) -> None:
        """A call will not be answered."""
        self.records.append(Lost(time, call))

    def event(self, time: int, session: int, type: int, path: str, zxid: int | None = None) -> None:
        """A watch event came. A zxid of 0 or below means none, as in ZooKeeper's catch-up events."""
        self.records.append(Event(time, session, type, path, zxid if zxid is not None and zxid > 0 else None))

    def merged(self, other: "History") -> "History":
        """Both histories by time. Their sessions must differ; the other's calls get new numbers."""
        moved = [_moved(record, self._calls) for record in other.records]
        return History(sorted([*self.records, *moved], key=lambda record: record.time))


def _moved(record: Record, by: int) -> Record:
    if isinstance(record, Invoked | Replied | Lost):
        return record._replace(call=record.call + by)
    return record
