"""The highest zxid that clients of a tree may have seen, for a tree that replaces it.

ZooKeeper's clients never connect to a server whose zxid is below the last one that they have seen.
"""

from pipeline.etcd.requests import read
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Get
from proxy.log.foreign import ours
from schema.entry import Kind, decode_entry, decode_epoch
from schema.errors import BadValue
from schema.followed import decode_followed
from schema.keys import Keyspace
from schema.record import TreeRecord
from schema.zxids import next_epoch

_TOGETHER = 16  # entries in one request: one may have more than a MiB


async def last_zxid(etcd: Etcd, keys: Keyspace, record: TreeRecord | None) -> int:
    """At least the highest zxid that a client of the tree under these keys has seen; 0 without a tree.

    Counted from the snapshot and the log, without loading the tree. Raises EtcdError.
    """
    zxid = 0 if record is None or record.current is None else record.current.zxid
    if record is None or not (record.complete or record.seal):
        return zxid
    start = keys.log
    while start < keys.log_end:
        get = Get(start, keys.log_end, limit=_TOGETHER)
        page = await read(etcd, get)
        for pair in ours(keys, page.kvs):
            zxid = _after(zxid, pair.value)
        start = page.kvs[-1].key + b"\0" if page.more else keys.log_end
    return zxid


def _after(zxid: int, entry: bytes) -> int:
    """At least the tree's zxid after an entry, whether the entry took effect or not."""
    try:
        requests = decode_entry(entry).requests
        for request in requests:
            if request.kind == Kind.EPOCH:
                zxid = next_epoch(max(zxid, decode_epoch(request.body).zxid_at_least))
            elif request.kind == Kind.FOLLOWED:  # the end of following begins an epoch
                zxid = max(zxid, decode_followed(request.body).zxid)
    except BadValue:
        return next_epoch(zxid)
    return zxid + len(requests)
