"""zketcd's log as a stream: the position of a reader, the end of the log, and the entries in between.

A mark is a prefix of the log in the order in which entries take effect (schema/README.md): so many entries
in all, as of a revision of etcd, up to a number of each incarnation. The same two marks always mean the same
entries, so a reader that starts again reads exactly what it would have read.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from pipeline.errors import Failure
from pipeline.etcd.record import NotReadable, record_of
from pipeline.etcd.requests import read
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Get, KeyValue
from proxy.log.follow import catch_up
from proxy.log.foreign import ours
from proxy.log.record import Look, incarnation_of
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.pages import decode_state
from schema.record import TreeRecord

_WINDOW = 4096  # keys of one request
_TRIES = 10


class DataLost(Failure):
    """Entries were truncated before they were read."""


class Mark(NamedTuple):
    """The position of a reader: after all entries that took effect up to a revision."""

    revision: int
    entries: int  # in all, since the tree began
    #: The last number by incarnation, of those that may still append or have entries.
    applied: Mapping[str, int]

    def to_offset(self) -> dict[str, Any]:
        """The form in which Spark stores it."""
        return {"revision": self.revision, "entries": self.entries, "applied": dict(self.applied)}

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> "Mark":
        """The reverse."""
        return cls(offset["revision"], offset["entries"], offset["applied"])


class Share(NamedTuple):
    """Neighbouring entries of one incarnation."""

    incarnation: str
    first: int
    last: int


async def earliest(etcd: Etcd, keys: Keyspace) -> Mark:
    """The mark before the oldest entry that surely exists: entries in the previous snapshot are truncated.

    Raises NotReadable, EtcdError.
    """
    for _ in range(_TRIES):
        _, record = await record_of(etcd, keys)
        mark = await _truncated(etcd, keys, record)
        if mark is not None:
            return mark
    raise NotReadable(f"the log under {keys.prefix.decode()} is truncated faster than it can be read")


async def latest(etcd: Etcd, keys: Keyspace, start: Mark, most: int | None = None) -> Mark:
    """The mark after the newest entry that has taken effect, or after `most` entries from `start` on.

    Raises DataLost, NotReadable, EtcdError.
    """
    found, _ = await record_of(etcd, keys)
    if found.revision < start.revision:
        raise DataLost(
            f"etcd is at revision {found.revision}, before {start.revision}, where the stream stood: it was"
            " restored from a backup, or is another cluster. Begin with a new checkpoint"
        )
    names = [incarnation_of(keys, proxy) for proxy in found.proxies]
    names += [name async for name in catch_up.incarnations(etcd, keys, keys.log, keys.log_end)]
    positions = {
        name: [at async for at in _positions(etcd, keys, name, start.applied.get(name, 0) + 1, found)]
        for name in sorted(set(names))
    }
    # Only now: this shows that none of the entries read above was truncated before.
    _, record = await record_of(etcd, keys)
    await _check(etcd, keys, record, start)
    new = sorted(at for each in positions.values() for at in each)
    revision = found.revision if most is None or len(new) <= most else new[most - 1]
    applied = {}
    entries = start.entries
    for name, each in positions.items():
        count = next((index for index, at in enumerate(each) if at > revision), len(each))
        applied[name] = start.applied.get(name, 0) + count
        entries += count
    return Mark(revision, entries, applied)


async def whole(etcd: Etcd, keys: Keyspace) -> tuple[Mark, Mark]:
    """The marks before the oldest entry and after the newest one. Raises NotReadable, EtcdError."""
    for _ in range(_TRIES):
        start = await earliest(etcd, keys)
        try:
            return start, await latest(etcd, keys, start)
        except DataLost:  # truncated at this moment
            continue
    raise NotReadable(f"the log under {keys.prefix.decode()} is truncated faster than it can be read")


def between(start: Mark, end: Mark, most: int) -> list[list[Share]]:
    """The entries after `start` up to `end`, in shares of about `most`."""
    shares: list[list[Share]] = []
    room = 0
    for incarnation, last in sorted(end.applied.items()):
        first = start.applied.get(incarnation, 0) + 1
        while first <= last:
            if not room:
                shares.append([])
                room = most
            upto = min(last, first + room - 1)
            shares[-1].append(Share(incarnation, first, upto))
            room -= upto - first + 1
            first = upto + 1
    return shares


async def entries(
    etcd: Etcd, keys: Keyspace, share: Share, *, lossy: bool
) -> AsyncIterator[tuple[int, KeyValue]]:
    """The share's entries with their numbers. `lossy`: skip those that were truncated.

    Raises DataLost, EtcdError.
    """
    expected = share.first
    async for page in catch_up.entries_of(etcd, keys, share.incarnation, share.first, 1 << 62):
        for pair in page:
            number = keys.parse(pair.key).number
            if number > share.last:
                break
            if number != expected and not lossy:
                raise _lost(share.incarnation, expected, number - 1)
            yield number, pair
            expected = number + 1
        else:
            continue
        break
    if expected <= share.last and not lossy:
        raise _lost(share.incarnation, expected, share.last)


async def _truncated(etcd: Etcd, keys: Keyspace, record: TreeRecord) -> Mark | None:
    """The mark of the snapshot that contains all truncated entries; None if it was replaced meanwhile."""
    previous = record.previous
    if previous is None:
        return Mark(0, 0, {})
    page = await read(etcd, Get(keys.state_page(previous.name)))
    if not page.kvs:
        return None
    try:
        state = decode_state(page.kvs[0].value)
    except BadValue as error:
        raise NotReadable(f"the state of the snapshot {previous.name} cannot be read: {error}") from error
    return Mark(previous.position, state.entries, state.applied)


async def _check(etcd: Etcd, keys: Keyspace, record: TreeRecord, start: Mark) -> None:
    """Raise DataLost if entries after `start` may be truncated."""
    gone = await _truncated(etcd, keys, record)
    if gone is None:
        gone = await earliest(etcd, keys)
    if gone.entries > start.entries:
        raise DataLost(
            f"{gone.entries - start.entries} entries behind position {start.revision} were truncated before"
            f" the stream read them; the log now begins behind position {gone.revision}. Set"
            " failOnDataLoss=false to continue from there, or begin with a new checkpoint"
        )


def _lost(incarnation: str, first: int, last: int) -> DataLost:
    return DataLost(
        f"the entries {first} to {last} of {incarnation} were truncated before they were read. Set"
        " failOnDataLoss=false to go on without them"
    )


async def _positions(
    etcd: Etcd, keys: Keyspace, incarnation: str, number: int, found: Look
) -> AsyncIterator[int]:
    """At which revision each entry from `number` to the first gap takes effect, as of the look.

    An entry that has overtaken its predecessor takes effect together with it.
    """
    effective = 0
    while True:
        get = Get(keys.entry(incarnation, number), keys.entry(incarnation, number + _WINDOW), keys_only=True)
        pairs = (await read(etcd, get)).kvs
        for pair in ours(keys, pairs):
            if keys.parse(pair.key).number != number or pair.mod_revision > found.revision:
                return
            effective = max(effective, pair.mod_revision)
            yield effective
            number += 1
        if len(pairs) < _WINDOW:
            return
