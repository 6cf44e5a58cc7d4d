"""ACLs as clients send them, and as they see them."""

from typing import Any

import pytest

from codec.constants import ErrorCode
from codec.jute import NO_TEXT, OPEN_ACL, Acl
from proxy.state.acl import expand, shown
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.auth.schemes import ALWAYS, offered
from proxy.state.outcome import Refusal
from proxy.state.rights import rights_of


def _expanded(acl: Any, *identities: Identity, schemes: frozenset[str] = ALWAYS) -> tuple[Acl, ...]:
    return expand(acl, identities, schemes).acl


USER = digest_identity(b"user:word")


def _refused(
    acl: list[Acl] | None, identities: tuple[Identity, ...] = (), code: ErrorCode = ErrorCode.INVALID_ACL
) -> None:
    with pytest.raises(Refusal) as refusal:
        _expanded(acl, *identities)
    assert refusal.value.code is code


def test_the_null_id_of_auth_is_not_looked_at() -> None:
    assert _expanded([Acl(31, "auth", NO_TEXT), Acl(31, "auth", "")], USER) == (Acl(31, *USER),) * 2


def test_the_open_acl_is_one_object() -> None:
    assert _expanded(OPEN_ACL) is OPEN_ACL
    assert _expanded([Acl(31, "world", "anyone")]) is OPEN_ACL
    assert _expanded([Acl(31, "world", "anyone")] * 2) is OPEN_ACL


def test_a_scheme_counts_where_the_senders_server_offers_it() -> None:
    acl, who = [Acl(1, "x509", "CN=amy")], Identity("x509", "CN=amy")
    _refused(acl, (who,))
    assert _expanded(acl, schemes=offered(x509=True, sasl=False)) == tuple(acl)
    _refused([Acl(1, "auth", "")], (who,))
    assert _expanded([Acl(1, "auth", "")], who, schemes=offered(x509=True, sasl=False)) == tuple(acl)


def test_only_digests_are_masked_for_those_without_admin() -> None:
    reader = Acl(1, "world", "anyone")
    acl = (reader, Acl(1, "digest", "user:hash"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:b:c"))
    masked = (reader, Acl(1, "digest", "user:x"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:x"))
    rights = rights_of(acl)
    assert shown(rights, ()) == masked
    assert shown(rights, (), most=2) == masked[:2]
    assert shown(rights, (Identity("super", ""),)) == acl
