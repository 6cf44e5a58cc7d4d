"""The table of changes: a row for each change of a znode, with the columns of `/changes` (docs/tables.md)."""

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.numbers import Int32
from proxy.log.load.replay import Place
from proxy.state.feed import made_by, row, written
from proxy.state.machine import Machine
from proxy.state.recording import Recording, keep_changes
from schema.entry import Entry, Request


class ChangeRow(NamedTuple):
    """One change."""

    id: str  # the place in the log
    zxid: int
    time: int  # milliseconds since 1970, by the clock of the proxy
    operation: str  # the request's
    change: str  # created, set, setACL, deleted
    path: str
    version_before: Int32 | None  # None: there was no znode
    version_after: Int32 | None  # None: there is none any more
    data: bytes | None  # what created and set have written


class ChangeRecorder:
    """Executes the requests of a replay, and keeps what they change."""

    def __init__(self, after: Mapping[str, int], rows: list[ChangeRow]) -> None:
        """`after`: the last number of each incarnation whose rows are not wanted."""
        self._after = after
        self._rows = rows

    def execute(self, machine: Machine, entry: Entry, request: Request, place: Place) -> None:
        """Apply the request to the machine. Raises UnknownLevel."""
        transaction = machine.transaction
        changes = transaction.changes if isinstance(transaction, Recording) else keep_changes(machine)
        changes.clear()
        machine.execute(request)
        if not changes or place.number <= self._after.get(place.incarnation, 0):
            return
        made = made_by(request, machine.zxid, entry.clock, changes)
        if made is None:
            return
        for part, change in enumerate(made.changes, 1):
            members = row(made, change, data=False)
            self._rows.append(ChangeRow(id=str(made.place(part)), **members, data=written(change)))
