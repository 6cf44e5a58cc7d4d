"""Permissions, ACLs as clients send them, and who proves to be whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import ErrorCode, Perms
from codec.jute import NO_TEXT, Acl
from proxy.state.acl import demand, expand, masked, permits
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.auth.schemes import ALWAYS, offered
from proxy.state.outcome import Refusal
from schema.znode import OPEN_ACL


def _expanded(acl: Any, *identities: Identity, schemes: frozenset[str] = ALWAYS) -> tuple[Acl, ...]:
    return expand(acl, identities, schemes)


ANYONE = Acl(31, "world", "anyone")
USER = digest_identity(b"user:word")
OTHER = digest_identity(b"other:word")


@pytest.mark.parametrize("permission", list(Perms))
def test_who_may_do_all(permission: Perms) -> None:
    assert permits(OPEN_ACL, permission, ())
    assert permits((), permission, ())
    assert permits((Acl(0, *OTHER),), permission, (Identity("super", ""),))
    demand(OPEN_ACL, permission, ())
    with pytest.raises(Refusal) as refusal:
        demand((Acl(31 - permission, "world", "anyone"),), permission, (USER,))
    assert refusal.value.code is ErrorCode.NO_AUTH


@given(st.integers(0, 31), st.sampled_from(list(Perms)))
def test_a_permission_is_its_bit(perms: int, permission: Perms) -> None:
    for scheme, name in (("world", "anyone"), tuple(USER), ("ip", "10.0.0.0/8")):
        acl = (Acl(perms, scheme, name),)
        assert permits(acl, permission, (Identity("ip", "10.9.8.7"), USER)) is bool(perms & permission)
        if scheme != "world":
            assert not permits(acl, permission, (Identity("ip", "11.9.8.7"), OTHER))


def test_one_entry_that_permits_is_enough() -> None:
    acl = (Acl(1, *OTHER), Acl(2, "world", "anyone"), Acl(4, *USER))
    assert [permission for permission in Perms if permits(acl, permission, (USER,))] == [2, 4]
    assert permits(acl, Perms.READ | Perms.CREATE, (USER,))


@pytest.mark.parametrize(("scheme", "name"), [("world", "nobody"), ("unknown", "x"), ("auth", ""), ("", "")])
def test_other_entries_permit_nobody(scheme: str, name: str) -> None:
    assert not permits((Acl(31, scheme, name),), Perms.READ, (USER, Identity(scheme, name)))


def _refused(
    acl: list[Acl] | None, identities: tuple[Identity, ...] = (), code: ErrorCode = ErrorCode.INVALID_ACL
) -> None:
    with pytest.raises(Refusal) as refusal:
        _expanded(acl, *identities)
    assert refusal.value.code is code


@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
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


def test_equal_acls_are_one_tuple_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[object, object] = {}
    monkeypatch.setattr("proxy.state.acl._MOST_SHARED", 5)
    monkeypatch.setattr("proxy.state.acl._shared", shared)
    first = _expanded([Acl(1, "ip", "::1"), ANYONE])
    assert _expanded([Acl(1, "ip", "::1"), ANYONE]) is first
    for number in range(20):
        _expanded([Acl(1, "ip", f"::{number}")])
        assert len(shared) <= 5


def test_a_scheme_counts_where_the_senders_server_offers_it() -> None:
    acl, who = [Acl(1, "x509", "CN=amy")], Identity("x509", "CN=amy")
    _refused(acl, (who,))
    assert _expanded(acl, schemes=offered(x509=True, sasl=False)) == tuple(acl)
    _refused([Acl(1, "auth", "")], (who,))
    assert _expanded([Acl(1, "auth", "")], who, schemes=offered(x509=True, sasl=False)) == tuple(acl)


def test_only_digests_are_masked() -> None:
    acl = (ANYONE, Acl(1, "digest", "user:hash"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:b:c"))
    assert masked(acl) == (ANYONE, Acl(1, "digest", "user:x"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:x"))


@given(st.sampled_from(list(Perms)), st.integers(0, 99), st.integers(0, 31))
def test_a_long_acl_says_the_same_as_its_entries_one_by_one(
    permission: Perms, place: int, perms: int
) -> None:
    for entry in (Acl(perms, *USER), Acl(perms, "ip", "10.0.0.0/8"), ANYONE):
        acl = [Acl(31, "ip", f"11.0.0.{number}") for number in range(50)]
        acl += [Acl(31, "digest", f"u{number}:x") for number in range(50)]
        acl[place] = entry
        for who in ((), (USER,), (OTHER, USER), (Identity("ip", "10.9.8.7"),), (Identity("super", ""),)):
            expected = any(permits((one,), permission, who) for one in acl)
            assert permits(tuple(acl), permission, who) is expected


def test_a_long_acl_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    acl = tuple(Acl(31, "digest", f"u{number}:x") for number in range(50))
    looked: list[object] = []

    def search(*asked: Any) -> bool:
        looked.append(asked)
        return False

    monkeypatch.setattr("proxy.state.acl._search", search)
    monkeypatch.setattr("proxy.state.acl._verdicts", {})
    for who in (USER, OTHER, USER):
        assert not permits(acl, Perms.READ, (who,))
    assert len(looked) == 2
    monkeypatch.setattr("proxy.state.acl._MOST_REMEMBERED", 80)
    assert not permits(acl[:40], Perms.READ, (USER,))
    assert not permits(acl, Perms.READ, (USER,))
    assert len(looked) == 4
