"""What an ACL permits, compiled once: a check costs what the identities cost, however long the ACL is.

The rules are ZooKeeper's (ZooKeeperServer.checkACL); what an entry of a scheme means is the scheme's
(`proxy.state.auth`). A node has the rights, and they have the ACL (`acl`).

Equal ACLs of all nodes share one object. It lives as long as a node has it: the table here refers to it
weakly.
"""

from collections.abc import Sequence
from operator import is_not
from weakref import WeakValueDictionary

from codec.constants import ErrorCode
from codec.jute import OPEN_ACL, Acl
from proxy.state.auth.scheme import Identities, Key
from proxy.state.auth.schemes import SCHEMES
from proxy.state.outcome import Refusal
from proxy.state.pause import NO_PAUSE, Pause
from schema.pages import ENTRY_BYTES

_ALL = -1  # every bit, and so every permission
# So many keys are looked at one by one; more have tables, which need more memory.
_FEW = 4
# Bytes of the identities that are kept prepared, about.
_MOST_PREPARED = 16 << 20

_Meaning = tuple[int, str, Key]  # permissions, scheme, and what the identity's keys have to contain


class Rights:
    """The rights that one ACL gives. Do not make one: `rights_of` does."""

    __slots__ = ("__weakref__", "_few", "_tables", "acl", "of_all", "size")

    def __init__(self, acl: tuple[Acl, ...], pause: Pause) -> None:
        self.acl = acl
        #: What anybody may do. An empty ACL permits everything.
        self.of_all = 0 if acl else _ALL
        size = ENTRY_BYTES * len(acl)
        meanings: list[_Meaning] = []
        for entry in pause.each(acl):
            perms, scheme, name = entry
            size += len(scheme) + len(name)
            if scheme == "world":
                self.of_all |= perms if name == "anyone" else 0
                continue
            known = SCHEMES.get(scheme)
            if known is not None:
                # An entry whose id is its only key is its own meaning.
                meanings += [
                    entry if key is name else (perms, scheme, key) for key in known.keys_of_entry(name)
                ]
        #: Bytes that the ACL takes in a reply and in a page of a snapshot: characters count as bytes. 0 for
        #: the open one, which nearly all nodes of most trees share.
        self.size = 0 if acl is OPEN_ACL else size
        self._few: Sequence[_Meaning] = ()
        self._tables: dict[str, dict[Key, int]] = {}
        if len(meanings) <= _FEW:
            self._few = acl if _same(meanings, acl) else tuple(meanings)
            return
        for perms, scheme, key in pause.each(meanings):
            table = self._tables.setdefault(scheme, {})
            table[key] = table.get(key, 0) | perms

    def given_to(self, prepared: "Prepared", permission: int) -> bool:
        """Whether one of the identities has the permission by an entry that names it."""
        for perms, scheme, key in self._few:
            if perms & permission and key in prepared.keys(scheme):
                return True
        for scheme, table in self._tables.items():
            # It goes over the keys of the identities, and not over the table.
            if any(table[key] & permission for key in table.keys() & prepared.keys(scheme)):
                return True
        return False


def _same(meanings: Sequence[_Meaning], acl: Sequence[Acl]) -> bool:
    return len(meanings) == len(acl) and not any(map(is_not, meanings, acl))


class Prepared:
    """The identities of a connection, as checks look them up."""

    __slots__ = ("_keys", "identities", "is_super")

    def __init__(self, identities: Identities) -> None:
        self.identities = identities
        self.is_super = any(identity.scheme == "super" for identity in identities)
        self._keys: dict[str, frozenset[Key]] = {}

    def keys(self, scheme: str) -> frozenset[Key]:
        """All keys of the identities of one scheme."""
        keys = self._keys.get(scheme)
        if keys is None:
            names = [identity.id for identity in self.identities if identity.scheme == scheme]
            keys = self._keys[scheme] = frozenset(
                [key for name in names for key in SCHEMES[scheme].keys_of_identity(name)]
            )
            _prepared.count(128 + 128 * len(keys))
        return keys


OPEN = Rights(OPEN_ACL, NO_PAUSE)
"""The rights that OPEN_ACL gives, and only it. The hot path compares with `is`."""

_shared: WeakValueDictionary[tuple[Acl, ...], Rights] = WeakValueDictionary({OPEN_ACL: OPEN})


def rights_of(acl: tuple[Acl, ...], pause: Pause = NO_PAUSE) -> Rights:
    """The rights of an ACL, the same object for equal ACLs."""
    if acl is OPEN_ACL:
        return OPEN
    rights = _shared.get(acl)
    if rights is None:
        rights = _shared[acl] = Rights(acl, pause)
    return rights


def permits(rights: Rights, permission: int, identities: Identities) -> bool:
    """Whether one of the identities has (any bit of) the permission."""
    if rights.of_all & permission:
        return True
    prepared = _prepared.get(id(identities))
    if prepared is None:
        prepared = _prepared.prepare(identities)
    return prepared.is_super or rights.given_to(prepared, permission)


def demand(rights: Rights, permission: int, identities: Identities) -> None:
    """Raise NOAUTH unless one of the identities has the permission."""
    if rights is not OPEN and not permits(rights, permission, identities):
        raise Refusal(ErrorCode.NO_AUTH)


class _PreparedLists(dict[int, Prepared]):
    """By id of the list of identities, which the value keeps, so that no other list has this id.

    All checks of a request, and most requests of a connection, have the same list.
    """

    size = 0  # bytes, about

    def prepare(self, identities: Identities) -> Prepared:
        """Keep a list prepared."""
        self.count(1024 + sum([256 + len(scheme) + len(name) for scheme, name in identities]))
        prepared = self[id(identities)] = Prepared(identities)
        return prepared

    def count(self, size: int) -> None:
        """So much more is kept. Forget all if it is too much."""
        self.size += size
        if self.size > _MOST_PREPARED:
            self.clear()
            self.size = size


_prepared = _PreparedLists()
