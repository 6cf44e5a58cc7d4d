"""ACLs as clients send them, made into those that nodes have, and as clients see them (`rights` checks them).

The rules are ZooKeeper's (PrepRequestProcessor.fixupACL); which ids a scheme has is the scheme's
(`proxy.state.auth`).
"""

import re
from collections.abc import Sequence

from codec.constants import ErrorCode, Perms
from codec.jute import NO_TEXT, OPEN_ACL, Acl
from proxy.state.auth.scheme import Identities
from proxy.state.auth.schemes import SCHEMES
from proxy.state.outcome import Refusal
from proxy.state.pause import NO_PAUSE, Pause
from proxy.state.rights import OPEN, Rights, permits, rights_of


def expand(
    acl: Sequence[Acl] | None, identities: Identities, schemes: frozenset[str], pause: Pause = NO_PAUSE
) -> Rights:
    """The rights that a node gets by the ACL that a client sent.

    Raises INVALIDACL as fixupACL does, and MARSHALLINGERROR where fixupACL ends with a NullPointerException.
    `schemes`: those that the client's server offers.
    """
    if acl is OPEN_ACL:  # the codec knows it by its bytes
        return OPEN
    if not acl:
        raise Refusal(ErrorCode.INVALID_ACL)
    if any(entry.id is NO_TEXT or entry.scheme is NO_TEXT for entry in acl):
        _demand_comparable(acl)
    stored: list[Acl] = []
    # The super user's own scheme has no provider, so it adds no entry for `auth`.
    proven = [each for each in identities if each.scheme in schemes and SCHEMES[each.scheme].proves]
    for entry in pause.each(dict.fromkeys(acl)):
        if entry.scheme == "world" and entry.id == "anyone":
            stored.append(entry)
        elif entry.scheme == "auth":
            if not proven:
                raise Refusal(ErrorCode.INVALID_ACL)
            stored += [Acl(entry.perms, *identity) for identity in pause.each(proven)]
        elif entry.id is NO_TEXT and (entry.scheme == "world" or entry.scheme in schemes):
            raise Refusal(ErrorCode.MARSHALLING_ERROR)
        elif entry.scheme in schemes and SCHEMES[entry.scheme].is_valid(entry.id):
            stored.append(entry)
        else:
            raise Refusal(ErrorCode.INVALID_ACL)
    return rights_of(tuple(stored), pause)


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


def shown(
    rights: Rights, identities: Identities, pause: Pause = NO_PAUSE, most: int | None = None
) -> tuple[Acl, ...]:
    """The ACL, or its first entries, as these identities see it.

    Only those with ADMIN see password hashes (FinalRequestProcessor, getACL).
    """
    acl = rights.acl[:most]
    return acl if permits(rights, Perms.ADMIN, identities) else _masked(acl, pause)


def _masked(acl: Sequence[Acl], pause: Pause) -> tuple[Acl, ...]:
    return tuple(
        Acl(entry.perms, entry.scheme, re.sub(r":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in pause.each(acl)
    )
