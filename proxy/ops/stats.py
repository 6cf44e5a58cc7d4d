"""The Stat of a write's reply, whose own zxid is known only after the Txn."""

from codec.packets import STAT
from proxy.draft import PENDING, StatFields


def pack_stat(fields: StatFields, zxid: int) -> bytes:
    """A Stat in which the zxids of the batch itself are `zxid`."""
    czxid, mzxid, *others, pzxid = fields
    return STAT.pack(
        zxid if czxid == PENDING else czxid,
        zxid if mzxid == PENDING else mzxid,
        *others,
        zxid if pzxid == PENDING else pzxid,
    )


def nothing(_result: object, _zxid: int) -> bytes:
    """The body of a reply that has none."""
    return b""
