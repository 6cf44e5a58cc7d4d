"""The order in which ZooKeeper lists the identities of a client: that of a set in Java.

NIOServerCnxn and NettyServerCnxn keep them in a set on a ConcurrentHashMap. Its order shows in whoAmI, in the
ACL entries that `auth` stands for, and in the audit log. It is the same in every JVM.
"""

import struct
from functools import lru_cache

from proxy.state.auth.scheme import Identities, Identity

_SHORT = 256  # characters of an id
_LEAST = 16  # places of an empty table; it is doubled once it is three quarters full


def listed(identities: Identities) -> Identities:
    """Identities without doubles in this order. They come in that of adding, or listed, with new ones behind.

    Some of twelve or more may be in another order than in Java, whose larger tables reorder what shares a
    place.
    """
    distinct = dict.fromkeys(identities)
    places = _LEAST
    while len(distinct) >= places * 3 // 4:
        places *= 2
    return tuple(sorted(distinct, key=lambda identity: _kept_hash(identity) & places - 1))


def _kept_hash(identity: Identity) -> int:
    return _short_hash(identity) if len(identity.id) <= _SHORT else _hash(identity)


def _hash(identity: Identity) -> int:
    """Id.hashCode, which jute generates, after ConcurrentHashMap.spread."""
    code = 37 * (37 * 17 + _hash_of_text(identity.scheme)) + _hash_of_text(identity.id)
    code &= 0xFFFFFFFF
    return code ^ code >> 16


# For each identity that a client adds, all of its are sorted again. Of long ones a client has few.
_short_hash = lru_cache(maxsize=8192)(_hash)


def _hash_of_text(text: str) -> int:
    """String.hashCode, unsigned."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code
