"""Permissions, ACLs as clients send them, and who proves to be whom."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.constants import ErrorCode, Perms
from codec.jute import Acl
from proxy.acl import Identity, authenticate, demand, digest_identity, expand, masked, permits
from proxy.refusal import Refusal
from schema.values import OPEN_ACL

ANYONE = Acl(31, "world", "anyone")
USER = digest_identity(b"user:word")
OTHER = digest_identity(b"other:word")


def test_a_digest_is_zookeepers() -> None:
    # What DigestAuthenticationProvider.generateDigest gives, from its unit test's "super:test".
    assert digest_identity(b"super:test") == Identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


def test_a_digest_of_what_is_no_text_is_that_of_its_replacement() -> None:
    assert digest_identity(b"us\xff:w").id.startswith("us�:")
    assert digest_identity(b"us\xff:w") == digest_identity("us�:w".encode())


@pytest.mark.parametrize("permission", list(Perms))
def test_the_open_acl_permits_all(permission: Perms) -> None:
    assert permits(OPEN_ACL, permission, ())
    assert permits((), permission, ())
    demand(OPEN_ACL, permission, ())


@given(st.integers(0, 31), st.sampled_from(list(Perms)))
def test_a_permission_is_its_bit(perms: int, permission: Perms) -> None:
    for scheme, name in (("world", "anyone"), tuple(USER), ("ip", "10.0.0.0/8")):
        acl = (Acl(perms, scheme, name),)
        assert permits(acl, permission, (Identity("ip", "10.9.8.7"), USER)) is bool(perms & permission)
        if scheme != "world":
            assert not permits(acl, permission, (Identity("ip", "11.9.8.7"), OTHER))


def test_one_entry_that_permits_is_enough() -> None:
    acl = (Acl(1, *OTHER), Acl(2, "world", "anyone"), Acl(4, *USER))
    assert [permits(acl, permission, (USER,)) for permission in (1, 2, 4, 8, 16)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert permits(acl, Perms.READ | Perms.CREATE, (USER,))


def test_what_is_not_permitted_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        demand((Acl(1, "world", "anyone"),), Perms.WRITE, (USER,))
    assert refusal.value.code is ErrorCode.NO_AUTH


def test_super_may_do_all() -> None:
    assert permits((Acl(1, *OTHER),), Perms.ADMIN, (Identity("super", ""),))


@pytest.mark.parametrize(("scheme", "name"), [("world", "nobody"), ("x509", "CN=a"), ("auth", ""), ("", "")])
def test_other_entries_permit_nobody(scheme: str, name: str) -> None:
    assert not permits((Acl(31, scheme, name),), Perms.READ, (USER, Identity(scheme, name)))


_V4 = st.ip_addresses(v=4)
_V6 = st.ip_addresses(v=6)


@given(st.one_of(st.tuples(_V4, _V4, st.integers(0, 32)), st.tuples(_V6, _V6, st.integers(0, 128))))
def test_an_ip_entry_is_a_network(
    drawn: tuple[
        ipaddress.IPv4Address | ipaddress.IPv6Address, ipaddress.IPv4Address | ipaddress.IPv6Address, int
    ],
) -> None:
    base, far, bits = drawn
    network = ipaddress.ip_network((base, bits), strict=False)
    inside = network[hash(far) % network.num_addresses]
    for address in (base, far, inside):
        acl = (Acl(1, "ip", f"{base}/{bits}"),)
        assert permits(acl, 1, (Identity("ip", str(address)),)) is (address in network)
    assert permits((Acl(1, "ip", str(base)),), 1, (Identity("ip", str(base)),))


def test_addresses_of_the_two_kinds_never_match() -> None:
    assert not permits((Acl(1, "ip", "0.0.0.0/0"),), 1, (Identity("ip", "::1"),))
    assert not permits((Acl(1, "ip", "::/0"),), 1, (Identity("ip", "1.2.3.4"),))
    assert not permits((Acl(1, "ip", "::/0"),), 1, (Identity("ip", "no address"),))


@pytest.mark.parametrize(
    "name",
    [
        "1.2.3.4",
        "010.2.3.4",
        "1.2.3.4/0",
        "1.2.3.4/32",
        "1.2.3.4/+8",
        "::",
        "::1/128",
        "1:2:3:4:5:6:7:8",
        "fe80::/10",
    ],
)
def test_ip_entries_that_are_taken(name: str) -> None:
    assert expand([Acl(1, "ip", name)], ()) == (Acl(1, "ip", name),)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.3.-1",
        "1.2.3.x",
        "1.2.3.4/33",
        "1.2.3.4/-1",
        "1.2.3.4/",
        "1.2.3.4/8/8",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        ":::",
        "12345::",
        "g::",
        "::/129",
        "::1.2.3.4",
        "localhost",
    ],
)
def test_ip_entries_that_are_not(name: str) -> None:
    _refused([Acl(1, "ip", name)])


@pytest.mark.parametrize("name", ["user:hash", ":hash", "user:hash:"])
def test_digest_entries_that_are_taken(name: str) -> None:
    assert expand([Acl(1, "digest", name)], ()) == (Acl(1, "digest", name),)


@pytest.mark.parametrize("name", ["", "user", "user:", ":", "a:b:c"])
def test_digest_entries_that_are_not(name: str) -> None:
    _refused([Acl(1, "digest", name)])


def _refused(acl: list[Acl] | None, identities: tuple[Identity, ...] = ()) -> None:
    with pytest.raises(Refusal) as refusal:
        expand(acl, identities)
    assert refusal.value.code is ErrorCode.INVALID_ACL


@pytest.mark.parametrize(
    "acl",
    [
        None,
        [],
        [Acl(31, "world", "somebody")],
        [Acl(1, "", "")],
        [Acl(1, "nonsense", "a:b")],
        [Acl(1, "super", "a:b")],
    ],
)
def test_acls_that_are_none(acl: list[Acl] | None) -> None:
    _refused(acl)


def test_one_bad_entry_spoils_all() -> None:
    _refused([ANYONE, Acl(1, "ip", "nowhere")])


def test_the_open_acl_is_one_object() -> None:
    assert expand([Acl(31, "world", "anyone")], ()) is OPEN_ACL


def test_the_same_entry_twice_counts_once() -> None:
    acl = [Acl(1, "ip", "::1"), ANYONE, Acl(1, "ip", "::1"), ANYONE, Acl(2, "ip", "::1")]
    assert expand(acl, ()) == (Acl(1, "ip", "::1"), ANYONE, Acl(2, "ip", "::1"))


def test_auth_stands_for_all_that_the_client_has_proven() -> None:
    identities = (Identity("ip", "10.0.0.1"), USER, OTHER)
    assert expand([Acl(5, "auth", "ignored")], identities) == (Acl(5, *USER), Acl(5, *OTHER))
    _refused([Acl(5, "auth", "")], (Identity("ip", "10.0.0.1"),))


def test_only_digests_are_masked() -> None:
    acl = (ANYONE, Acl(1, "digest", "user:hash"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:b:c"))
    assert masked(acl) == (ANYONE, Acl(1, "digest", "user:x"), Acl(2, "ip", "::1"), Acl(4, "digest", "a:x"))


def test_who_proves_to_be_whom() -> None:
    assert authenticate("digest", b"user:word", "10.0.0.1") == USER
    assert authenticate("ip", None, "10.0.0.1") == Identity("ip", "10.0.0.1")
    assert authenticate("digest", None, "10.0.0.1") is None
    assert authenticate("world", b"anyone", "10.0.0.1") is None
    assert authenticate(None, b"", "10.0.0.1") is None
