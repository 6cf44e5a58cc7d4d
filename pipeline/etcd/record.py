"""The record of a tree in etcd, which says whether the tree can be read."""

from pipeline.errors import Failure
from pipeline.etcd.requests import until_known_or_full
from proxy.etcd.interface import Etcd
from proxy.log.record import Look, TreeNotServable, is_copy, look
from schema.keys import Keyspace
from schema.record import TreeRecord


class NotReadable(Failure):
    """What is stored under the prefix is not a complete tree."""


async def record_of(etcd: Etcd, keys: Keyspace) -> tuple[Look, TreeRecord]:
    """The tree's record and the living proxies. Raises NotReadable, EtcdError."""
    try:
        found = await until_known_or_full(look, etcd, keys)
    except TreeNotServable as error:
        raise NotReadable(str(error)) from error
    prefix = keys.prefix.decode()
    if found.record is None:
        raise NotReadable(f"there is no tree under {prefix}")
    if (seal := found.record.seal) is not None:
        raise NotReadable(
            f"{prefix} was moved to the prefix {seal.prefix} of the etcd at {seal.etcd}: read that"
        )
    if is_copy(found):
        raise NotReadable(f"{prefix} follows another one: it can be read after `follow --finish`")
    if not found.record.complete:
        raise NotReadable(
            f"the import into {prefix} is not complete, or the first load of a follow. Run that command"
            " again: it starts over"
        )
    return found, found.record
