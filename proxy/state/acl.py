"""Who may do what: ACL checks, and the expansion of ACLs that a client sends.

The rules are ZooKeeper's (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL); what an entry of a
scheme means is the scheme's (`proxy.state.auth`).
"""

import re
from collections.abc import Iterable, Sequence

from codec.constants import ErrorCode
from codec.jute import NO_TEXT, Acl
from proxy.state.auth.scheme import Identities, Identity, same
from proxy.state.auth.schemes import SCHEMES
from proxy.state.outcome import Refusal
from schema.znode import OPEN_ACL

# ACLs with at most so many entries are searched each time.
_FEW = 32
# Entries of all the ACLs whose results are cached.
_MOST_REMEMBERED = 1 << 18
# Different ACLs that are cached in order to share them.
_MOST_SHARED = 10_000
_shared: dict[tuple[Acl, ...], tuple[Acl, ...]] = {}
# By id of the ACL, permission and identities. The ACL itself is kept too, so that no other has its id.
_verdicts: dict[tuple[int, int, Identities], tuple[Sequence[Acl], bool]] = {}


def permits(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> bool:
    """Whether one of the identities has (any bit of) the permission; an empty ACL permits all."""
    if acl is OPEN_ACL or not acl:
        return True
    if any(identity.scheme == "super" for identity in identities):
        return True
    if len(acl) > _FEW:
        return _remembered(acl, permission, tuple(identities))
    for perms, scheme, name in acl:
        if not perms & permission:
            continue
        if scheme == "world" and name == "anyone":
            return True
        known = SCHEMES.get(scheme)
        if known is not None:
            for identity in identities:
                if identity.scheme == scheme and known.matches(identity.id, name):
                    return True
    return False


def _remembered(acl: Sequence[Acl], permission: int, identities: Identities) -> bool:
    """`permits` of a long ACL, with a cache: the search is slow, and is repeated for the same client."""
    key = id(acl), permission, identities
    known = _verdicts.get(key)
    if known is not None:
        return known[1]
    verdict = _search(acl, permission, identities)
    if sum(len(one) for one, _ in _verdicts.values()) + len(acl) > _MOST_REMEMBERED:
        _verdicts.clear()
    _verdicts[key] = acl, verdict
    return verdict


def _search(acl: Sequence[Acl], permission: int, identities: Identities) -> bool:
    """As `permits`, for very many entries or very many identities."""
    by_scheme: dict[str, set[str]] = {}
    for identity in identities:
        by_scheme.setdefault(identity.scheme, set()).add(identity.id)
    for perms, scheme, name in acl:
        if not perms & permission:
            continue
        if scheme == "world" and name == "anyone":
            return True
        known, ids = SCHEMES.get(scheme), by_scheme.get(scheme)
        if known is None or ids is None:
            continue
        if name in ids if known.matches is same else any(known.matches(one, name) for one in ids):
            return True
    return False


def demand(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> None:
    """Raise NOAUTH unless one of the identities has the permission."""
    if acl is not OPEN_ACL and not permits(acl, permission, identities):
        raise Refusal(ErrorCode.NO_AUTH)


def expand(acl: Sequence[Acl] | None, identities: Identities, schemes: frozenset[str]) -> tuple[Acl, ...]:
    """The ACL to store for one that a client sent.

    Raises INVALIDACL as fixupACL does, and MARSHALLINGERROR where fixupACL ends with a NullPointerException.
    `schemes`: those that the client's server offers. Equal ACLs are one tuple, since trees hold few.
    """
    if acl is OPEN_ACL:  # the codec knows it by its bytes
        return OPEN_ACL
    if not acl:
        raise Refusal(ErrorCode.INVALID_ACL)
    if any(entry.id is NO_TEXT or entry.scheme is NO_TEXT for entry in acl):
        _demand_comparable(acl)
    stored: list[Acl] = []
    for entry in dict.fromkeys(acl):
        if entry.scheme == "world" and entry.id == "anyone":
            stored.append(entry)
        elif entry.scheme == "auth":
            # The super user's own scheme has no provider, so it adds no entry here.
            known = [
                identity
                for identity in identities
                if identity.scheme in schemes and SCHEMES[identity.scheme].proves
            ]
            if not known:
                raise Refusal(ErrorCode.INVALID_ACL)
            stored += (Acl(entry.perms, identity.scheme, identity.id) for identity in known)
        elif entry.id is NO_TEXT and (entry.scheme == "world" or entry.scheme in schemes):
            raise Refusal(ErrorCode.MARSHALLING_ERROR)
        elif entry.scheme in schemes and SCHEMES[entry.scheme].is_valid(entry.id):
            stored.append(entry)
        else:
            raise Refusal(ErrorCode.INVALID_ACL)
    expanded = tuple(stored)
    if expanded == OPEN_ACL:
        return OPEN_ACL
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(expanded, expanded)


def _demand_comparable(acl: Sequence[Acl]) -> None:
    """Raise MARSHALLINGERROR if ZooKeeper cannot compare an entry, which has a null, with one before it.

    It removes duplicates before it looks at the entries (PrepRequestProcessor.removeDuplicates). For that it
    compares permissions, then schemes, then ids, by a method of the entry's own (ACL.equals, Id.equals).
    """
    perms_before: set[int] = set()
    before: set[tuple[int, str]] = set()
    for perms, scheme, name in acl:
        null_scheme = scheme is NO_TEXT and perms in perms_before
        if null_scheme or (name is NO_TEXT and (perms, scheme) in before):
            raise Refusal(ErrorCode.MARSHALLING_ERROR)
        perms_before.add(perms)
        before.add((perms, scheme))


def masked(acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """The ACL as those without ADMIN see it: no password hashes (FinalRequestProcessor, getACL)."""
    return tuple(
        Acl(entry.perms, entry.scheme, re.sub(r":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in acl
    )
