"""How a subtree was deleted: by which clients, from when on, and how many nodes went.

Clients delete a subtree node by node, from below. So the node itself goes last, and just before that almost
nothing is left: the state to bring back is the one before the first of these deletes.

One client may be interrupted, and another one delete the rest. So the deletes of all clients count, back to
the last other change. Before that, only those count of the client that deleted the node: others may delete
nodes there all the time, and to go back further would undo more than a deletion.
"""

from collections.abc import Iterable
from typing import NamedTuple

from archive.files.moment import By, Moment, time, zxid
from archive.files.store import Store
from archive.past.history import Event, History

# Behind a longer pause, or another change below the node, a client's deletes are another deletion.
_PAUSE = 60_000  # milliseconds
_LOOK_BACK = 24 * 3_600_000
_ENDS_OF_SESSIONS = ("CLOSE_SESSION", "CLOSE")  # which delete ephemerals: these do not come back in any case

Client = tuple[str, tuple[str, ...]]  # a session, and its identities


class Deletes(NamedTuple):
    """Deletes that follow each other."""

    first: Event
    last: Event
    nodes: int
    clients: frozenset[Client]

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


class Deletion(NamedTuple):
    """How a node was deleted, with all below it."""

    deletes: Deletes  # the node itself went last
    earlier: list[Deletes]  # that may belong to it as well


def last_deletion(store: Store, path: str) -> Deletion | None:
    """The last deletion of a node; None if the archive has none. Raises ArchiveError."""
    last = None
    for event in History(store, path).events():
        if event.change == "deleted":
            last = event
    if last is None:
        return None
    since, until = time(last.time - _LOOK_BACK), zxid(last.zxid)
    return deletion_of(History(store, path, since=since, until=until, recursive=True).events(), last)


def deletion_of(events: Iterable[Event], last: Event) -> Deletion:
    """The deletion that ended with `last`. `events`: those of the subtree up to that, oldest first."""
    by_session: dict[str, Deletes] = {}  # the deletes since its last other change or long pause
    by_all: list[Deletes] = []  # the deletes since the last other change, divided by long pauses
    for event in events:
        if event.change != "deleted":
            by_session.pop(event.session, None)
            by_all.clear()
            if event.path == last.path and event.change == "created":
                by_session.clear()  # what was deleted before was below a former node
        elif event.zxid == last.zxid or event.operation not in _ENDS_OF_SESSIONS:
            by_session[event.session] = _with(by_session.get(event.session), event)
            former = by_all.pop() if by_all else None
            joined = _with(former, event)
            by_all += [joined] if former is None or joined.first is former.first else [former, joined]
            if (event.zxid, event.path) == (last.zxid, last.path):
                break  # a multi may create the node again
    own, deletes = by_session.pop(last.session), by_all.pop()
    if own.first.zxid < deletes.first.zxid:
        deletes = own
        by_all.clear()  # they are later than the first of these
    begin = by_all[0].first if by_all else deletes.first
    others = [
        each
        for each in by_session.values()
        if each.first.zxid < begin.zxid and deletes.first.time - each.last.time <= _PAUSE
    ]
    return Deletion(deletes, sorted([*by_all, *others], key=lambda each: each.first.zxid))


def _with(former: Deletes | None, event: Event) -> Deletes:
    """A delete that follows others, or is the first one."""
    client = event.session, event.identities
    if former is None or event.time - former.last.time > _PAUSE:
        return Deletes(event, event, 1, frozenset([client]))
    clients = former.clients if client in former.clients else former.clients | {client}
    return Deletes(former.first, event, former.nodes + 1, clients)
