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
from tests.table import one_by_one


def _expanded(acl: Any, *identities: Identity, schemes: frozenset[str] = ALWAYS) -> tuple[Acl, ...]:
    return expand(acl, identities, schemes).acl


ANYONE = Acl(31, "world", "anyone")
USER = digest_identity(b"user:word")
OTHER = digest_identity(b"other:word")


def _refused(
    acl: list[Acl] | None, identities: tuple[Identity, ...] = (), code: ErrorCode = ErrorCode.INVALID_ACL
) -> None:
    with pytest.raises(Refusal) as refusal:
        _expanded(acl, *identities)
    assert refusal.value.code is code


@one_by_one(
    "acl",
    [
        None,
        [],
        [Acl(31, "world", "somebody")],
        [Acl(1, "", "")],
        [Acl(1, "nonsense", "a:b")],
        [Acl(1, "super", "a:b")],
        [ANYONE, Acl(1, "ip", "nowhere")],  # one bad entry spoils all
    ],
)
def test_acls_that_are_none(acl: list[Acl] | None) -> None:
    _refused(acl)


IP = Acl(31, "ip", "10.0.0.1")


# tests/compat/test_zxids.py compares these with ZooKeeper.
@one_by_one(
    ("acl", "code"),
    [
        ([Acl(31, "ip", NO_TEXT)], ErrorCode.MARSHALLING_ERROR),
        ([Acl(31, "world", NO_TEXT)], ErrorCode.MARSHALLING_ERROR),
        ([Acl(31, "unknown", NO_TEXT)], ErrorCode.INVALID_ACL),
        ([Acl(31, NO_TEXT, NO_TEXT)], ErrorCode.INVALID_ACL),
        ([Acl(1, "ip", "nowhere"), Acl(31, "ip", NO_TEXT)], ErrorCode.INVALID_ACL),
        ([Acl(31, "ip", "nowhere"), Acl(31, "ip", NO_TEXT)], ErrorCode.MARSHALLING_ERROR),
        ([IP, Acl(31, NO_TEXT, "x")], ErrorCode.MARSHALLING_ERROR),
        ([IP, Acl(1, NO_TEXT, "x")], ErrorCode.INVALID_ACL),
        ([Acl(31, "auth", NO_TEXT)] * 2, ErrorCode.MARSHALLING_ERROR),
    ],
)
def test_where_a_null_in_an_acl_is_met(acl: list[Acl], code: ErrorCode) -> None:
    _refused(acl, (USER,), code)


def test_the_null_id_of_auth_is_not_looked_at() -> None:
    assert _expanded([Acl(31, "auth", NO_TEXT), Acl(31, "auth", "")], USER) == (Acl(31, *USER),) * 2


def test_the_open_acl_is_one_object() -> None:
    assert _expanded(OPEN_ACL) is OPEN_ACL
    assert _expanded([Acl(31, "world", "anyone")]) is OPEN_ACL
    assert _expanded([Acl(31, "world", "anyone")] * 2) is OPEN_ACL


def test_the_same_entry_twice_counts_once() -> None:
    acl = [Acl(1, "ip", "::1"), ANYONE, Acl(1, "ip", "::1"), ANYONE, Acl(2, "ip", "::1")]
    assert _expanded(acl) == (Acl(1, "ip", "::1"), ANYONE, Acl(2, "ip", "::1"))


def test_auth_stands_for_all_that_the_client_has_proven() -> None:
    identities = (Identity("ip", "10.0.0.1"), USER, OTHER)
    assert _expanded([Acl(5, "auth", "ignored")], *identities) == (Acl(5, *USER), Acl(5, *OTHER))
    _refused([Acl(5, "auth", "")], (Identity("ip", "10.0.0.1"),))


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
