"""How a subtree was deleted: by which client, from when on, and how many nodes went.

Clients delete a subtree node by node, from below. So the node itself goes last, and just before that almost
nothing is left: the state to bring back is the one before the first of these deletes.
"""

from typing import NamedTuple

from archive.files.moment import By, Moment, time, zxid
from archive.files.store import Store
from archive.past.history import Event, History

# Behind a longer pause, or another change below the node, a client's deletes are another deletion.
_PAUSE = 60_000  # milliseconds
_LOOK_BACK = 24 * 3_600_000


class Deletion(NamedTuple):
    """The deletes of one client that ended with the node itself."""

    first: Event
    last: Event  # of the node itself
    nodes: int

    @property
    def before(self) -> Moment:
        """The moment before the first of them."""
        return zxid(self.first.zxid - 1)

    def cuts(self, moment: Moment) -> bool:
        """Whether some of the nodes were deleted at a moment, and others were not yet."""
        if moment.by is By.NOW:
            return False
        values = {By.TIME: "time", By.ZXID: "zxid", By.POSITION: "position"}
        first, last = (getattr(event, values[moment.by]) for event in (self.first, self.last))
        return bool(first <= moment.value < last)


def last_deletion(store: Store, path: str) -> Deletion | None:
    """The last deletion of a node; None if the archive has none. Raises ArchiveError."""
    last = None
    for event in History(store, path).events():
        if event.change == "deleted":
            last = event
    if last is None:
        return None
    first, count, reached = last, 0, 0
    since, until = time(last.time - _LOOK_BACK), zxid(last.zxid)
    for event in History(store, path, since=since, until=until, recursive=True).events():
        if event.session != last.session:
            continue
        if event.change != "deleted":
            count = 0
        elif count and event.time - reached <= _PAUSE:
            count += 1
        else:
            first, count = event, 1
        reached = event.time
    return Deletion(first, last, count)
