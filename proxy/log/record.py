"""The tree's record and the living proxies, read at one revision; and whether this release can serve the
tree.

This module reads and checks the record, and makes that of a new tree. Snapshots and entries are elsewhere.
"""

import logging
from collections.abc import Collection
from typing import NamedTuple

from proxy.etcd.interface import Reads
from proxy.etcd.model import Compare, Get, KeyValue, Put, RangeResult, Txn
from proxy.log.foreign import ours
from proxy.log.living import LivingProxies, living_proxy
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import Seal, TreeRecord, decode_record, encode_record, is_incomplete_with_pages

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds for one request
_MOST_THERE = 1000  # keys in whose place no tree is made, that are looked at


class TreeNotServable(Exception):
    """This release cannot serve what is stored under the prefix; the message says why and what to do."""


class NoTree(TreeNotServable):
    """There is no tree under the prefix."""


class TreeSealed(TreeNotServable):
    """The tree has moved to another etcd or prefix."""

    def __init__(self, keys: Keyspace, seal: Seal, position: int) -> None:
        """`position`: what lies above it takes no effect."""
        super().__init__(
            f"the tree under {keys.prefix.decode()} was moved to the prefix {seal.prefix} of the etcd at"
            f" {seal.etcd}; it was sealed here at position {position}. Use the zketcd there"
        )
        self.seal = seal
        self.position = position


class Registered(NamedTuple):
    """An incarnation, and the revision at which its proxy key was put."""

    incarnation: str
    revision: int


class Look(NamedTuple):
    """What is stored under a prefix, as of one revision."""

    revision: int
    record: TreeRecord | None  # None: there is no record
    pair: KeyValue | None  # the record's key
    proxies: list[KeyValue]  # the keys of the living proxies
    has_position: bool = False  # there is a position up to which the tree has copied another one


async def look(etcd: Reads, keys: Keyspace) -> Look:
    """Read the record and the living proxies at one revision. Raises EtcdError, TreeNotServable."""
    answer = await etcd.txn(
        Txn((), (Get(keys.tree), Get(keys.proxies, keys.proxies_end), Get(keys.follows, keys_only=True))),
        TIMEOUT,
    )
    found, proxies, follows = answer.responses
    assert isinstance(found, RangeResult)
    assert isinstance(proxies, RangeResult)
    assert isinstance(follows, RangeResult)
    prefix = keys.prefix.decode()
    record = None
    if found.kvs:
        try:
            record = decode_record(found.kvs[0].value)
        except BadValue as error:
            raise TreeNotServable(f"the tree under {prefix} cannot be served: {error}") from error
    pair = found.kvs[0] if found.kvs else None
    return Look(answer.revision, record, pair, ours(keys, proxies.kvs), bool(follows.kvs))


def incarnation_of(keys: Keyspace, proxy: KeyValue) -> str:
    """The incarnation that a proxy's key names."""
    return keys.parse(proxy.key).incarnation


def living_of(found: Look, keys: Keyspace) -> LivingProxies:
    """The living proxies, and commands that visit the tree."""
    living = LivingProxies()
    for key in found.proxies:
        living.add(living_proxy(incarnation_of(keys, key), key.create_revision, key.value))
    return living


async def create(etcd: Reads, keys: Keyspace, level: int) -> None:
    """Make the record of a new tree, unless it exists. Raises EtcdError, TreeNotServable."""
    cluster_id = (await etcd.status(TIMEOUT)).cluster_id
    nothing = (
        Compare(keys.tree, 0),
        Compare(keys.log, 0, keys.log_end),
        Compare(keys.snapshots, 0, keys.snapshots_end),
    )
    record = TreeRecord(complete=True, cluster_id=cluster_id, level=level, current=None, previous=None)
    there = (
        Get(keys.tree, keys_only=True),
        Get(keys.log, keys.log_end, keys_only=True, limit=_MOST_THERE),
        Get(keys.snapshots, keys.snapshots_end, keys_only=True, limit=_MOST_THERE),
    )
    answer = await etcd.txn(Txn(nothing, (Put(keys.tree, encode_record(record)),), there), TIMEOUT)
    prefix = keys.prefix.decode()
    if answer.succeeded:
        log.info("made a new tree under %s", prefix)
        return
    found, *others = answer.responses
    assert isinstance(found, RangeResult)
    if not found.kvs:
        pairs = [pair for each in others if isinstance(each, RangeResult) for pair in each.kvs]
        if not ours(keys, pairs):
            raise TreeNotServable(
                f"no tree is made under {prefix}, since there are keys of another program, such as"
                f" {pairs[0].key!r}: delete them, or give zketcd a prefix of its own"
            )
        raise TreeNotServable(
            f"the record {keys.tree.decode()} is missing, but log entries or snapshot pages are there."
            f" Restore etcd from a backup, or delete everything under {prefix}/ to begin with an empty tree"
        )


def servable(
    found: Look,
    keys: Keyspace,
    levels: Collection[int],
    *,
    even_sealed: bool = False,
    even_copy: bool = False,
) -> TreeRecord:
    """The record, if a release that applies `levels` can serve the tree. Raises TreeNotServable.

    `even_sealed`, `even_copy`: the tree is only read.
    """
    if even_copy and is_copy(found):
        assert found.record is not None
        record = found.record
    else:
        record = complete_record(found, keys, even_sealed=even_sealed)
    if record.level not in levels:
        raise TreeNotServable(unknown_level(keys.prefix.decode(), record.level, levels))
    return record


def complete_record(found: Look, keys: Keyspace, *, even_sealed: bool = False) -> TreeRecord:
    """The record of a complete tree. Raises TreeNotServable."""
    prefix = keys.prefix.decode()
    record = found.record
    if record is None or found.pair is None:
        raise NoTree(f"there is no tree under {prefix}: the key {keys.tree.decode()} is missing")
    if record.seal is not None:
        if not even_sealed:
            raise TreeSealed(keys, record.seal, found.pair.mod_revision)
    elif is_copy(found):
        raise TreeNotServable(
            f"the tree under {prefix} follows another one, and is not served before the cut-over:"
            " `zketcd follow ... --finish`"
        )
    elif not record.complete:
        raise TreeNotServable(
            f"the import into {prefix} is not complete, or the first load of a follow. Run that command"
            " again: it starts from the beginning"
        )
    return record


def is_copy(found: Look) -> bool:
    """Whether the tree copies another one, so that it is not complete yet."""
    return found.has_position and is_incomplete_with_pages(found.record)


def unknown_level(prefix: str, level: int, levels: Collection[int]) -> str:
    """The message for an operator whose release cannot apply a tree's level."""
    known = ", ".join(map(str, sorted(levels)))
    way = "a newer" if level > max(levels) else "an older"
    return (
        f"the tree under {prefix} has level {level}, and this release of zketcd applies level {known}."
        f" Start {way} release, one that applies level {level}"
    )


def no_longer_servable(keys: Keyspace, record: TreeRecord | None, position: int) -> TreeNotServable:
    """The error for a tree that was served, and whose record is now missing or not complete.

    `position`: where the record was put.
    """
    if record is not None and record.seal is not None:
        return TreeSealed(keys, record.seal, position)
    prefix = keys.prefix.decode()
    if record is None:
        return TreeNotServable(
            f"the tree under {prefix} was deleted from etcd: its record {keys.tree.decode()} is gone."
            " Restore a backup, or start zketcd again to begin with an empty tree"
        )
    return TreeNotServable(
        f"an import into {prefix} has begun, which replaces the tree that this proxy served. Start zketcd"
        " again when the import is complete"
    )


def unreadable(incarnation: str, number: int, error: Exception) -> TreeNotServable:
    """The error for an entry that cannot be decoded. A proxy that skipped it would fork the tree."""
    return TreeNotServable(
        f"entry {number} of {incarnation} cannot be read: {error}. If no release of zketcd can read it,"
        f" stop all proxies and run `zketcd void {incarnation} {number}`: its requests then have"
        " no effect"
    )
