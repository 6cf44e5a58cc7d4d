"""Permissions: what a compiled ACL permits is what its entries permit one by one, at any length."""

import gc
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.constants import Perms
from codec.jute import OPEN_ACL, Acl
from proxy.state import rights as module
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.auth.schemes import SCHEMES
from proxy.state.rights import OPEN, permits, rights_of
from tests.proxy.state.test_pause import Counting

ANYONE = Acl(31, "world", "anyone")
USER = digest_identity(b"user:word")
OTHER = digest_identity(b"other:word")


def _permits(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> bool:
    return permits(rights_of(tuple(acl)), permission, tuple(identities))


# -- compared with the rule itself ---------------------------------------------------------------------------


_NETWORKS = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3",
    "10.1.2.3/0",
    "0.0.0.0/1",
    "::/0",
    "1::/16",
    "1::2",
    "::/128",
]
_NO_NETWORKS = ["", "10.1.2", "10.1.2.3/33", "::/129", "1:2", "host"]
_ADDRESSES = [
    "10.1.2.3",
    "10.1.9.9",
    "10.9.9.9",
    "200.1.1.1",
    "1:0:0:0:0:0:0:2",
    "1:0:0:0:0:0:0:3",
    "no address",
    "",
]
_NAMES = ["", "super", "amy", "bob", "amy:x", "bob:y", "anyone"]


def _names(ips: list[str]) -> st.SearchStrategy[tuple[str, str]]:
    schemes = st.sampled_from(["world", "digest", "sasl", "x509", "auth", "unknown", ""])
    return st.one_of(
        st.tuples(schemes, st.sampled_from(_NAMES)), st.tuples(st.just("ip"), st.sampled_from(ips))
    )


_entries = st.builds(
    lambda perms, named: Acl(perms, *named),
    st.integers(0, 31) | st.sampled_from([-1, -(1 << 31), 32, 33]),
    _names([*_NETWORKS, *_NO_NETWORKS]),
)
_identities = st.builds(lambda named: Identity(*named), _names(_ADDRESSES) | st.just(("super", "")))


def _means(entry: Acl, identity: Identity) -> bool:
    """Whether an entry means an identity: the matches() of ZooKeeper's providers."""
    if entry.scheme != identity.scheme or entry.scheme not in SCHEMES:
        return False
    if entry.scheme == "ip":
        if entry.id in _NO_NETWORKS or identity.id in ("no address", ""):
            return False
        return ipaddress.ip_address(identity.id) in ipaddress.ip_network(entry.id, strict=False)
    return identity.id == entry.id or (entry.scheme == "sasl" and identity.id == "super")


def _plain(acl: Sequence[Acl], permission: int, identities: Sequence[Identity]) -> bool:
    """ZooKeeperServer.checkACL."""
    if not acl or any(identity.scheme == "super" for identity in identities):
        return True
    return any(
        entry.perms & permission
        and (
            (entry.scheme, entry.id) == ("world", "anyone") or any(_means(entry, each) for each in identities)
        )
        for entry in acl
    )


@given(
    st.lists(_entries, max_size=40) | st.lists(_entries, max_size=4),
    st.lists(_identities, max_size=12),
    st.integers(1, 31),
)
@example([Acl(1, "sasl", "amy")] * 9, [Identity("sasl", "super")], 1)
@example([Acl(1, "digest", f"u{number}") for number in range(9)], [], 1)
def test_it_permits_what_its_entries_permit(
    acl: list[Acl], identities: list[Identity], permission: int
) -> None:
    for entries in (acl, acl[:1], acl[-1:]):
        for who in (identities, identities[:1]):
            assert _permits(entries, permission, who) is _plain(entries, permission, who)


@given(st.sampled_from(list(Perms)), st.integers(0, 99), st.integers(0, 31))
def test_a_long_acl_permits_what_one_of_its_entries_does(permission: Perms, place: int, perms: int) -> None:
    many = tuple(Identity("digest", f"none{number}:x") for number in range(150))
    for entry in (Acl(perms, *USER), Acl(perms, "ip", "10.0.0.0/8"), ANYONE):
        acl = [Acl(31, "ip", f"11.0.0.{number}") for number in range(50)]
        acl += [Acl(31, "digest", f"u{number}:x") for number in range(50)]
        acl[place] = entry
        for who in ((), (USER,), (OTHER, USER), (Identity("ip", "10.9.8.7"),), (*many, USER), many):
            assert _permits(acl, permission, who) is _plain(acl, permission, who)


# -- what it costs -------------------------------------------------------------------------------------------


def test_no_check_parses_an_entry_and_a_list_of_identities_is_prepared_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    ip = SCHEMES["ip"]

    def keys_of_entry(name: str) -> Any:
        parsed.append(name)
        return ip.keys_of_entry(name)

    def keys_of_identity(name: str) -> Any:
        parsed.append(name)
        return ip.keys_of_identity(name)

    counted = ip._replace(keys_of_entry=keys_of_entry, keys_of_identity=keys_of_identity)
    monkeypatch.setitem(SCHEMES, "ip", counted)
    acls = [tuple(Acl(31, "ip", f"10.{node}.0.{last}") for last in range(100)) for node in range(10)]
    compiled = [rights_of(acl) for acl in acls]
    assert len(parsed) == 1000
    parsed.clear()
    who = (Identity("ip", "10.9.0.99"), USER)
    assert [permits(rights, Perms.READ, who) for rights in compiled * 50] == [*[False] * 9, True] * 50
    assert parsed == ["10.9.0.99"]
    assert [rights_of(acl) for acl in acls] == compiled
    assert parsed == ["10.9.0.99"]


class _Key(str):
    """A key that counts how often it is hashed."""

    __slots__ = ()
    hashed = 0

    def __hash__(self) -> int:
        _Key.hashed += 1
        return super().__hash__()


@pytest.mark.parametrize("entries", [5, 100, 5000])
def test_a_check_costs_what_the_identities_cost(entries: int) -> None:
    rights = rights_of(tuple(Acl(31, "digest", _Key(f"u{number}:x")) for number in range(entries)))
    who = (Identity("digest", _Key("other:x")), Identity("ip", "10.0.0.1"))
    assert not permits(rights, Perms.READ, who)
    _Key.hashed = 0
    assert not permits(rights, Perms.READ, who)
    assert _Key.hashed <= 1


def test_it_is_compiled_with_pauses() -> None:
    pause = Counting(100)
    rights_of(tuple(Acl(31, "ip", f"10.0.{number >> 8}.{number & 255}") for number in range(2000)), pause)
    assert pause.calls >= 20


# -- what is kept --------------------------------------------------------------------------------------------


def test_equal_acls_are_one_object_as_long_as_it_is_used() -> None:
    acl = (Acl(1, "ip", "::1"), ANYONE)
    known = len(module._shared)
    rights = rights_of(acl)
    assert rights_of((Acl(1, "ip", "::1"), ANYONE)) is rights
    assert rights_of((Acl(31, "world", "anyone"),)) is OPEN is rights_of(OPEN_ACL)
    assert len(module._shared) == known + 1
    gc.disable()
    try:
        del rights
        assert len(module._shared) == known, "nothing but the last reference keeps it"
    finally:
        gc.enable()


def test_prepared_identities_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = module._PreparedLists()
    monkeypatch.setattr(module, "_prepared", prepared)
    monkeypatch.setattr(module, "_MOST_PREPARED", 40_000)
    rights = rights_of((Acl(1, "ip", "10.0.0.0/8"),))
    for number in range(100):
        for who in ((Identity("digest", f"{number}:x" * 10),), (Identity("ip", f"10.0.0.{number}"),)):
            assert permits(rights, Perms.READ, who) is (who[0].scheme == "ip")
            assert len(prepared) <= 40
            assert prepared.size <= 40_000
