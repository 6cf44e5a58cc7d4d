"""The tree in etcd that follows another one: its fence, its entries, its position, and the cut-over.

While it follows, its record says that it is not complete, so no proxy serves it. The record is the fence of
the only active follower, as it is a load's (docs/decisions/0012): each Txn compares the record's
mod_revision, and another follower that takes over changes it. One Txn puts an entry and the position that it
leads to. So whichever process is killed, etcd has the tree at that position. Each Txn also compares the
mod_revision of the position: an etcd that was restored from a backup, beside a follower that runs on, lacks
entries, and must get none that come after them.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.etcd import load
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load, guarded, keys_of, target_of
from pipeline.etcd.requests import TIMEOUT, LoadRefused, commit, read, until_known_or_full
from pipeline.etcd.room import room_in
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, Get, Op, Put, RangeResult, Txn
from proxy.etcd.status_poller import ReadMetrics
from proxy.log.follow.catch_up import Caught, entries_after
from proxy.log.load.pages import UnusableSnapshot, read_snapshot
from proxy.log.load.replay import Replay
from proxy.log.record import look
from proxy.log.slices import in_slices
from proxy.state import capture
from proxy.state.machine import Machine
from proxy.state.pause import Pause
from proxy.state.tree import NODE_SIZE
from schema.entry import EntryWriter, Kind, Request
from schema.errors import BadValue
from schema.followed import Followed, Lag, encode_followed, encode_lag
from schema.json_values import boolean, number, pack_json, text, unpack_json
from schema.keys import Keyspace, snapshot_name
from schema.pages import split_nodes
from schema.record import SnapshotRef, TreeRecord, decode_record, encode_record

_ROOM = 4096  # bytes of a request besides the entry
# A change in a log that compresses well takes fewer bytes, but a replay takes 5 us for each.
_OF_A_CHANGE = 64
_RUN = 4096  # nodes side by side whose pages are a sample
_SAMPLED = 8  # of so many runs one is made into pages
_LAST = "lost"  # the name of a follower that completes its tree without the source begins so


class Origin(NamedTuple):
    """The place in another zketcd's log up to which a tree has followed it."""

    cluster_id: int  # of the source's etcd
    prefix: str  # "": of an archive, which does not know it
    entries: int  # of its log, since the source began
    clock: int  # of the last entry that was applied: milliseconds since 1970


class Position(NamedTuple):
    """How far the tree has followed."""

    base: str  # the snapshot that the entries follow; an interrupted load has another one
    zxid: int
    mark: int | None  # checksum of that transaction in ZooKeeper's log; None: the snapshot holds it
    source: str  # for messages
    finished: bool  # the tree is complete, and may be served
    origin: Origin | None = None  # None: it follows a ZooKeeper
    source_zxid: int | None = None  # of a finished one: the last zxid that its source had before


class Held(NamedTuple):
    """A tree whose fence is this follower's, and its position. It may not be loaded yet."""

    tree: "TargetTree"
    position: Position


class Start(NamedTuple):
    """Where a follower begins: the tree in etcd, its state, and its position."""

    tree: "TargetTree"
    machine: Machine
    position: Position


def encode_position(position: Position) -> bytes:
    """The value of the key `follow/position`."""
    members = position._asdict()
    del members["origin"]
    if position.source_zxid is None:
        del members["source_zxid"]
    if position.origin is not None:
        members |= {"origin": position.origin._asdict()}
    return pack_json(members)


def decode_position(value: bytes) -> Position:
    """Raises BadValue."""
    members = unpack_json(value, "the position of the tree that follows")
    try:
        mark, origin, last = members["mark"], members.get("origin"), members.get("source_zxid")
        return Position(
            text(members["base"]),
            number(members["zxid"]),
            None if mark is None else number(mark),
            text(members["source"]),
            boolean(members["finished"]),
            None
            if origin is None
            else Origin(
                number(origin["cluster_id"]),
                text(origin["prefix"]),
                number(origin["entries"]),
                number(origin["clock"]),
            ),
            None if last is None else number(last),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"the position of the tree that follows is wrong: {error!r}") from None


async def position_of(etcd: Etcd, keys: Keyspace) -> Position | None:
    """The position of a tree that follows or has followed; None for any other. Raises EtcdError, BadValue."""
    both = Txn((), (Get(keys.follows), Get(keys.tree)))  # at one revision: a follower may put both
    followed, tree = (await until_known_or_full(etcd.txn, both, TIMEOUT)).responses
    assert isinstance(followed, RangeResult)
    assert isinstance(tree, RangeResult)
    record = decode_record(tree.kvs[0].value) if tree.kvs else None
    if not followed.kvs or record is None or record.current is None:
        return None
    position = decode_position(followed.kvs[0].value)
    if position.finished:
        return position if record.complete else None
    return position if not record.complete and record.current.name == position.base else None


async def allowed(etcd: Etcd, keys: Keyspace) -> int:
    """For how many seconds the source's proxies may serve without a sign of the copy's follower; 0: for ever.

    Raises EtcdError.
    """
    found = (await read(etcd, Get(keys.within))).kvs
    return int(found[0].value) if found else 0


async def resume(
    etcd: Etcd,
    keys: Keyspace,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    *,
    lost: bool = False,
    held: Callable[[Held], None] = lambda _held: None,
) -> Start:
    """Take over a tree that follows. The fence excludes the former follower. Raises Failure, EtcdError.

    `lost`: to complete it without its source. From then on no other follower takes it over. `held` is called
    as soon as the fence is taken.
    """
    writer = (_LAST if lost else "follow") + secrets.token_hex(8)
    while True:
        there = await target_of(etcd, keys)
        if there.record is None or not there.follows or there.record.current is None:
            raise load.lost(keys)
        former = (await read(etcd, Get(keys.follower))).kvs
        if former and former[0].value.startswith(_LAST.encode()) and not lost:
            raise Failure(
                f"{keys.prefix.decode()} is being completed without its source: run --finish --source-lost"
                " again, or start over with --overwrite"
            )
        take = Txn(
            (Compare(keys.tree, there.record_mod),),
            (
                Put(keys.tree, encode_record(there.record)),
                Put(keys.follower, writer.encode()),
                Delete(keys.finish),  # it was not asked of this follower
            ),
            (Get(keys.follower), Get(keys.tree, keys_only=True)),
        )
        done = await commit(etcd, take)
        revision = done.revision
        if not done.succeeded:
            follower, record = done.responses
            assert isinstance(follower, RangeResult)
            assert isinstance(record, RangeResult)
            if not follower.kvs or not record.kvs or follower.kvs[0].value != writer.encode():
                continue  # another one takes over at the same time
            revision = record.kvs[0].mod_revision  # our own: the answer to the first try was lost
        break
    begun = Load(revision, there.record.cluster_id, there.record.current.position, writer)
    found = (await read(etcd, Get(keys.follows, keys_only=True))).kvs
    position = await position_of(etcd, keys)
    if position is None or not found:
        raise load.lost(keys)
    tree = TargetTree(etcd, keys, begun, there.record, found[0].mod_revision, limits)
    held(Held(tree, position))
    await tree.delete_others()
    machine, _ = await _state(etcd, keys, there.record.current)
    if machine.zxid != position.zxid:
        raise Failure(
            f"the tree under {keys.prefix.decode()} is at zxid {machine.zxid:#x}, but its position says"
            f" {position.zxid:#x}: it is damaged. Start over with --overwrite"
        )
    return Start(tree, machine, position)


async def state_of(etcd: Etcd, keys: Keyspace) -> tuple[Machine, Position]:
    """The tree that follows, as of now. Raises Failure, EtcdError."""
    there = await target_of(etcd, keys)
    if not there.follows or there.record is None or there.record.current is None:
        raise Failure(f"{keys.prefix.decode()} follows no other tree")
    machine, revision = await _state(etcd, keys, there.record.current)
    at = Get(keys.follows, revision=revision)  # one Txn puts an entry and the position
    (found,) = (await read(etcd, at)).kvs
    return machine, decode_position(found.value)


async def _state(etcd: Etcd, keys: Keyspace, base: SnapshotRef) -> tuple[Machine, int]:
    """The state of the snapshot and the entries after it, and etcd's revision as of which it is."""
    try:
        machine = await read_snapshot(etcd, keys, base, lambda _count: None)
    except UnusableSnapshot as error:
        raise Failure(f"{keys.prefix.decode()}: {error}. Start over with --overwrite") from error
    found = await look(etcd, keys)
    entries = await entries_after(etcd, keys, machine.applied, found)
    if found.record is None or found.pair is None:
        raise load.lost(keys)
    caught = Caught(found.revision, found.record, found.pair, found.proxies, entries)
    replay = Replay(keys, machine, caught, lambda _count: None)
    await replay.run(found.revision)
    if replay.disagreements:
        raise Failure(
            f"the tree under {keys.prefix.decode()} is not the one that its follower wrote:"
            f" {replay.disagreements[0]}. Start over with --overwrite"
        )
    return machine, found.revision


async def begin(
    etcd: Etcd,
    keys: Keyspace,
    make: Callable[[int], Awaitable[tuple[Machine, Position]]],
    limits: Limits,
    *,
    overwrite: bool,
    progress: Callable[[str], None],
    read_metrics: ReadMetrics | None = None,
) -> Start:
    """Clear the prefix and write the first snapshot. `make` gets the etcd cluster's id.

    `read_metrics`: etcd's, by which it has room for that snapshot, or the tree that is there stays.

    Raises LoadRefused, EtcdError, and what `make` raises, before anything is cleared.
    """
    there = await target_of(etcd, keys)
    reason = load.refusal(there, keys, overwrite=overwrite)
    if reason is not None:
        raise LoadRefused(reason)
    cluster_id = (await until_known_or_full(etcd.status, TIMEOUT)).cluster_id
    machine, position = await make(cluster_id)
    if read_metrics is not None and (room := await room_in(etcd, read_metrics)) is not None:
        room.check(await in_slices(lambda pause: _page_bytes(machine, pause)))
    begun = await load.begin(etcd, keys, overwrite=overwrite, progress=progress)
    record = TreeRecord(False, begun.cluster_id, machine.level, None, None)
    tree = TargetTree(etcd, keys, begun, record, 0, limits)
    return Start(tree, machine, await tree.rebase(machine, position))


def _page_bytes(machine: Machine, pause: Pause) -> int:
    """About what the pages of its nodes take, by a sample: to make all takes as long as to write them."""
    nodes = machine.tree.nodes
    paths = list(nodes)
    starts = range(0, len(paths), _SAMPLED * _RUN)
    sample = sorted([path for start in starts for path in paths[start : start + _RUN]])
    size = sum([NODE_SIZE + len(path) + nodes[path].size + nodes[path].rights.size for path in sample])
    pages = 0
    for page in split_nodes((path, nodes[path]) for path in sample):
        pages += len(page)
        pause()
    return pages * machine.tree.size // size


class TooLarge(Failure):
    """No entry can have these changes."""


class TargetTree:
    """The tree in etcd, for its one follower, while the fence holds.

    Each method raises LoadRefused once another follower has taken over.
    """

    def __init__(
        self,
        etcd: Etcd,
        keys: Keyspace,
        begun: Load,
        record: TreeRecord,
        position_mod: int,
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._load = begun
        self._record = record
        self._number = 0  # of this follower's last entry
        self._limits = limits
        self._position_mod = position_mod  # mod_revision of the position; 0: there is none yet
        self._in_flight = asyncio.Lock()  # held while a Txn that moves what all compare is on its way
        #: Bytes of entries since the snapshot; a change counts at least `_OF_A_CHANGE`.
        self.log_bytes = 0

    @property
    def cluster_id(self) -> int:
        """Of the etcd in which the tree began."""
        return self._record.cluster_id

    @property
    def snapshot_bytes(self) -> int:
        """The bytes of the snapshot that the entries follow."""
        return self._record.current.bytes if self._record.current is not None else 0

    def is_longer_than(self, log_bytes: int) -> bool:
        """Whether more was written since the snapshot than this, and than that has: a new base is due."""
        return self.log_bytes > max(log_bytes, self.snapshot_bytes)

    async def append(
        self,
        machine: Machine,
        changes: Followed,
        clock: int,
        position: Position,
        settings: Sequence[Request] = (),
    ) -> None:
        """Put an entry that leads from one zxid to the next, and the position that it leads to.

        Raises TooLarge.
        """
        await self.put(self.entry(machine, changes, clock, position, settings))

    def entry(
        self,
        machine: Machine,
        changes: Followed,
        clock: int,
        position: Position,
        settings: Sequence[Request] = (),
    ) -> Txn:
        """The Txn that appends so much. Put each before the next one is made, and before all else here.

        `settings`: requests that follow the changes. Raises TooLarge.
        """
        put = Put(self._keys.follows, encode_position(position))
        return self._entry(machine, changes, clock, [put], settings)

    async def finish(
        self, machine: Machine, changes: Followed, clock: int, position: Position, request: int = 0
    ) -> None:
        """Put the last entry and the record of a complete tree, which proxies may serve from then on.

        `request`: mod_revision of the request to finish, which has to be there still; 0: there is none.
        Raises Withdrawn if it is not: nothing was written, but `machine` has moved on.
        """
        position = position._replace(finished=True, source_zxid=changes.after)
        keys = self._keys
        record = self._record._replace(complete=True, level=machine.level)
        rest: list[Op] = [
            Put(keys.follows, encode_position(position)),
            Put(keys.tree, encode_record(record)),
            Delete(keys.finish),
            Delete(keys.follower),
            Delete(keys.lag),
            Delete(keys.within),
        ]
        entry = self._entry(machine, changes, clock, rest)
        if request:
            entry = entry._replace(compares=(*entry.compares, Compare(keys.finish, request)))
        try:
            await self.put(entry)
        except TakenOver:
            raise
        except Failure:
            found = (await read(self._etcd, Get(keys.finish, keys_only=True))).kvs
            if request and request not in [pair.mod_revision for pair in found]:
                raise Withdrawn("the command that asked for the end has ended") from None
            raise

    async def allow(self, within: int) -> None:
        """Note for how long the source's proxies may serve without a sign of this follower, once it is here.

        What is noted only grows: they may still count on another follower's.
        """
        found = await self._commit(Get(self._keys.within))
        assert isinstance(found, RangeResult)
        if not found.kvs or int(found.kvs[0].value) < within:
            await self._commit(Put(self._keys.within, str(within).encode()))

    async def report(self, lag: Lag) -> None:
        """Put how far the tree is behind, for those that read it meanwhile."""
        await self._commit(Put(self._keys.lag, encode_lag(lag)))

    async def _commit(self, op: Op) -> object:
        """The result of a Txn that moves neither the record nor the position."""
        async with self._in_flight:
            done = await commit(self._etcd, Txn(self._guards(), (op,)))
            if not done.succeeded:
                raise await self._why_not()
        return done.responses[0]

    def _guards(self) -> tuple[Compare, Compare]:
        return self._load.guard(self._keys), Compare(self._keys.follows, self._position_mod)

    async def _why_not(self) -> Failure:
        """The error if what each Txn compares is not what this follower has left there."""
        get = Get(self._keys.tree, keys_only=True)
        found = (await read(self._etcd, get)).kvs
        if found and found[0].mod_revision == self._load.revision:
            return Failure(
                f"etcd no longer has what this follower has written under {self._keys.prefix.decode()}: was"
                " it restored from a backup? Run the command again: it goes on from what is there"
            )
        return taken_over(self._keys)

    def _entry(
        self,
        machine: Machine,
        changes: Followed,
        clock: int,
        rest: Sequence[Op],
        settings: Sequence[Request] = (),
    ) -> Txn:
        """`machine` is at the end of `changes` already: here it counts the entry, and gets the settings."""
        number = self._number + 1
        writer = EntryWriter()
        if changes.zxid != changes.after:
            writer.add(Kind.FOLLOWED, 0, 0, (), encode_followed(changes))
        for request in settings:
            writer.add(*request)
        # The digest before this entry, as in other senders' entries.
        value = writer.finish(clock, 0, *machine.last_checkpoint)
        if len(value) > self._limits.max_request_bytes - _ROOM:
            raise TooLarge(
                f"the changes up to zxid {changes.zxid:#x} have {len(value)} bytes, and etcd takes"
                f" {self._limits.max_request_bytes} in a request: raise its --max-request-bytes, and give"
                " the same value here"
            )
        machine.begin(self._load.writer, number, clock, 0)
        for request in settings:
            machine.execute(request)
        machine.end()
        self._number = number
        self.log_bytes += max(
            len(value), _OF_A_CHANGE * (len(changes.deleted) + sum(map(len, changes.changed)))
        )
        key = self._keys.entry(self._load.writer, number)
        return Txn((Compare(key, 0),), (Put(key, value), *rest), (Get(key, keys_only=True),))

    async def put(self, entry: Txn) -> None:
        """Put an entry."""
        async with self._in_flight:
            done = await commit(self._etcd, entry._replace(compares=(*self._guards(), *entry.compares)))
            self._position_mod = done.revision
            if not done.succeeded:
                # The answer to an earlier try may have been lost. No other process uses this number.
                found = done.responses[0]
                assert isinstance(found, RangeResult)
                if not found.kvs:
                    raise await self._why_not()
                self._position_mod = found.kvs[0].mod_revision

    async def rebase(self, machine: Machine, position: Position) -> Position:
        """Write the state as the new base, and delete what it replaces; returns the new position."""
        keys = self._keys
        current = await self._write_snapshot(machine)
        position = position._replace(base=current.name)
        await self._name_snapshot(current, position, machine)
        self.log_bytes = 0
        await self._delete(keys.log, keys.log_end)
        await self.delete_others()
        return position

    async def delete_others(self) -> None:
        """Delete the pages that no record names: former ones, and of followers that were killed."""
        assert self._record.current is not None
        first, end = self._keys.snapshot(self._record.current.name)
        await self._delete(self._keys.snapshots, first)
        await self._delete(end, self._keys.snapshots_end)

    async def _write_snapshot(self, machine: Machine) -> SnapshotRef:
        """Put the pages of the state, which no record names yet."""
        keys = self._keys
        now = (await read(self._etcd, Get(keys.tree, keys_only=True))).revision
        self._load = self._load._replace(position=now)
        name = snapshot_name(now, self._load.writer)
        # In slices: meanwhile the source gets signs of life.
        captured = await in_slices(lambda pause: capture.pages(machine, pause))
        counts = {"nodes": 0, "sessions": 0, "bytes": len(captured.state)}

        def puts(pause: Pause) -> Iterator[Put]:
            yield Put(keys.state_page(name), captured.state)
            for kind, made, key in (
                ("sessions", captured.session_pages, keys.session_page),
                ("nodes", captured.node_pages, keys.node_page),
            ):
                for page in made:
                    counts["bytes"] += len(page)
                    counts[kind] += 1
                    yield Put(key(name, counts[kind] - 1), page)
                    pause()

        await load.put(self._etcd, keys, self._load, puts, self._limits)
        return SnapshotRef(
            name=name,
            position=now,
            writer=self._load.writer,
            node_pages=counts["nodes"],
            session_pages=counts["sessions"],
            bytes=counts["bytes"],
            nodes=len(machine.tree.nodes),
            sessions=len(machine.sessions),
            zxid=machine.zxid,
            digest=captured.digest,
        )

    async def _name_snapshot(self, current: SnapshotRef, position: Position, machine: Machine) -> None:
        """Put the record and the position that name a snapshot, in one Txn; the fence moves to it."""
        keys = self._keys
        record = self._record._replace(current=current, level=machine.level)
        txn = Txn(
            self._guards(),
            (Put(keys.tree, encode_record(record)), Put(keys.follows, encode_position(position))),
            (Get(keys.follows), Get(keys.tree, keys_only=True)),
        )
        async with self._in_flight:
            done = await commit(self._etcd, txn)
            revision = done.revision
            if not done.succeeded:
                # The answer to an earlier try may have been lost.
                there, fence = done.responses
                assert isinstance(there, RangeResult)
                assert isinstance(fence, RangeResult)
                if not there.kvs or decode_position(there.kvs[0].value).base != current.name:
                    raise await self._why_not()
                revision = fence.kvs[0].mod_revision
            self._load = self._load._replace(revision=revision)
            self._position_mod = revision
        self._record = record

    async def _delete(self, start: bytes, end: bytes) -> None:
        async for page in keys_of(self._etcd, start, end):
            await guarded(self._etcd, self._keys, self._load, [Delete(page[0], page[-1] + b"\0")])


class Withdrawn(Failure):
    """The tree is not to be completed any more."""


class TakenOver(LoadRefused):
    """Another follower or import works on the tree, or it is complete."""


def taken_over(keys: Keyspace) -> TakenOver:
    """The error if the fence has moved."""
    return TakenOver(
        f"another follower or import has taken {keys.prefix.decode()} over; this one has written nothing"
        " since"
    )
