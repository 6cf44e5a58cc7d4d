"""What has happened to a node or a subtree: read from the segments whose index says that they change it."""

from collections.abc import Iterator
from typing import NamedTuple

from archive.files import segment
from archive.files.catalog import ArchiveError, Catalog, Run
from archive.files.index import Index
from archive.files.moment import By, Moment
from archive.files.names import Point, Segment
from archive.files.segment import Change, Content
from archive.files.store import Missing, Store
from archive.past import state as past
from codec.constants import OpCode
from codec.longs import hex64
from proxy.state.auth.schemes import named
from proxy.state.feed import WORDS, request_name
from proxy.state.ops import EXTENDED
from proxy.state.recording import What
from schema.entry import Entry, Kind, Request, decode_close
from schema.errors import BadValue

_KINDS = {
    segment.CREATED: WORDS[What.CREATED],
    segment.DELETED: WORDS[What.DELETED],
    segment.DATA: WORDS[What.DATA],
    segment.ACL: WORDS[What.ACL],
}
_Key = tuple[int, int, str, str, str]  # of a change: equal in each run that has it


class Event(NamedTuple):
    """A change of a node."""

    time: int  # milliseconds since 1970: of the proxy's clock, or the archiver's if that is less
    zxid: int
    position: int
    path: str
    change: str  # created, deleted, set, setACL
    operation: str  # the request's: MULTI, CLOSE_SESSION, ...
    session: str
    identities: tuple[str, ...]  # of the client, each scheme:user; its address is ip:...
    proxy: str
    before: int | None  # version
    after: int | None
    size_before: int | None
    size_after: int | None
    data: bytes | None  # that was written, if it is asked for and the request has it
    reason: str  # why a session was ended by a proxy


class Cost(NamedTuple):
    """What an answer has cost."""

    segments: int  # in the time that was asked for
    read: int  # of them
    bytes: int


class History:
    """One question."""

    def __init__(
        self,
        store: Store,
        path: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        recursive: bool = False,
        data: bool = False,
    ) -> None:
        self._store = store
        self._path = path
        self._below = path.rstrip("/") + "/"
        self._since = since
        self._until = until
        self._recursive = recursive
        self._data = data
        self.cost = Cost(0, 0, 0)
        #: Places within the wanted time where entries are lost: how many entries before it and after it.
        self.gaps: list[tuple[int, int]] = []

    def events(self) -> Iterator[Event]:
        """Oldest first. Raises ArchiveError."""
        files = self._store.list()
        catalog = Catalog(files)
        catalog.check_filled()
        reached = None
        known: set[_Key] = set()
        for at, run in enumerate(catalog.runs, 1):
            if reached is not None and run.begin.entries > reached.entries:
                self._note_gap(reached, run.begin.entries, run.begin)
            # A run that was begun after a restore of etcd, or damage, has entries that this one has as well.
            again = min((later.begin.position for later in catalog.runs[at:]), default=None)
            keys: set[_Key] = set()
            for event in self._of_run(run, files):
                key = event.position, event.zxid, event.path, event.change, event.proxy
                if key in known:
                    continue
                if again is not None and event.position > again:
                    keys.add(key)
                yield event
            known |= keys
            reached = run.end

    def _of_run(self, run: Run, files: dict[str, int]) -> Iterator[Event]:
        start = run.begin
        for each in run.segments:
            if each.first > start.entries:
                self._note_gap(start, each.first, each.end)
            if self._is_wanted(start, each.end):
                self.cost = self.cost._replace(segments=self.cost.segments + 1)
                yield from self._of(run, each, files, start.entries)
            start = each.end

    def _note_gap(self, start: Point, first: int, end: Point) -> None:
        """Entries after `start` and before the entry `first + 1` are lost; that one lies before `end`."""
        if self._is_wanted(start, end):
            self.gaps.append((start.entries, first))

    def _is_wanted(self, start: Point, end: Point) -> bool:
        since, until = self._since, self._until
        return (since is None or since.by is By.NOW or getattr(end, since.by.value) >= since.value) and (
            until is None or until.by is By.NOW or getattr(start, until.by.value) <= until.value
        )

    def _of(self, run: Run, each: Segment, files: dict[str, int], reached: int) -> Iterator[Event]:
        name = f"{run.name}/{each.index_name}"
        if name in files:
            try:
                value = self._store.get(name)
                self.cost = self.cost._replace(bytes=self.cost.bytes + len(value))
                if not Index(value).may_change(self._path, recursive=self._recursive):
                    return
            except (Missing, BadValue):
                pass  # the segment itself answers
        content = past.read(self._store, run, each)
        size = files[run.path(each)]
        self.cost = self.cost._replace(read=self.cost.read + 1, bytes=self.cost.bytes + size)
        known: dict[int, tuple[Entry, int]] = {}
        for change in content.changes:
            if content.start.entries + change.entry < reached or not self._concerns(change.path):
                continue
            if change.entry not in known:
                known[change.entry] = _entry(content, change.entry)
            event = self._event(content, change, *known[change.entry])
            if self._is_between(event):
                yield event

    def _concerns(self, path: str) -> bool:
        return path == self._path or (self._recursive and path.startswith(self._below))

    def _is_between(self, event: Event) -> bool:
        values = {By.TIME: event.time, By.ZXID: event.zxid, By.POSITION: event.position}
        since, until = self._since, self._until
        return (since is None or since.by is By.NOW or values[since.by] >= since.value) and (
            until is None or until.by is By.NOW or values[until.by] <= until.value
        )

    def _event(self, content: Content, change: Change, entry: Entry, position: int) -> Event:
        if change.request >= len(entry.requests):
            raise ArchiveError(
                f"a change of {change.path} is of a request that its entry at {position} lacks"
            )
        request = entry.requests[change.request]
        data = None
        if self._data and change.kind in (segment.CREATED, segment.DATA):
            data = _written(request, change)
        return Event(
            content.clocks[change.entry],
            change.zxid,
            position,
            change.path,
            _KINDS[change.kind],
            request_name(request),
            hex64(request.session_id),
            tuple(map(named, request.identities)),
            content.records[change.entry].incarnation,
            _number(change.before),
            _number(change.after),
            _number(change.size_before),
            _number(change.size_after),
            data,
            _reason(request),
        )


def _entry(content: Content, index: int) -> tuple[Entry, int]:
    record = content.records[index]
    return past.entry_of(record), record.position


def _number(value: int) -> int | None:
    return None if value == segment.NONE else value


def _reason(request: Request) -> str:
    if request.kind != Kind.CLOSE:
        return ""
    try:
        return decode_close(request.body).reason
    except BadValue:
        return ""


def _written(request: Request, change: Change) -> bytes | None:
    """The data that the request, or a part of it, has given the node."""
    operation = EXTENDED.writes.get(request.opcode) if request.kind == Kind.CLIENT else None
    if operation is None:
        return None
    fields = operation.decode(request.body, 0)[0]
    parts = [part for _, part in fields] if request.opcode == OpCode.MULTI else [fields]
    found = None
    for part in parts:
        # A sequential node has a number behind its path; of several parts on one node the last one counts.
        if isinstance(part, tuple) and len(part) > 1 and change.path.startswith(part[0]):
            length = len(change.path) - len(part[0])
            if length in (0, 10) and isinstance(part[1], bytes | None):
                found = part[1]
    return found
