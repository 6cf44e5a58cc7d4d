"""Addresses of hosts."""

import pytest

from proxy.support.addresses import (
    is_any,
    is_loopback,
    is_public_name,
    listening_address,
    reachable_address,
    servers,
    source_of,
)
from tests.table import one_by_one


def test_which_hosts_are_of_the_loopback_interface() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "", "local host")))


def test_what_all_addresses_are_called_and_where_others_reach_them() -> None:
    assert all(map(is_any, ("", "*", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")))
    assert not any(map(is_any, ("127.0.0.1", "::1", "db-1")))
    assert [listening_address(host, 1) for host in ("", "::", "10.0.0.1")] == ["*:1", "[::]:1", "10.0.0.1:1"]
    for listening in ("*:1", "[::]:1", "0.0.0.0:1"):
        assert reachable_address(listening, "db-1") == "db-1:1"
    assert reachable_address("[::1]:1", "db-1") == "[::1]:1"


def test_public_names() -> None:
    assert all(map(is_public_name, ("evil.example", "127.0.0.1.evil.example", "localhost.")))
    assert not any(map(is_public_name, ("localhost", "host", "10.0.0.1", "::1", "")))


def test_servers_are_named_as_zookeepers_clients_name_them() -> None:
    assert servers("a:1,b, [::1]:3") == (("a", 1), ("b", 2181), ("::1", 3))
    for wrong in ("", "::1", "a:", "a:0", "a:65536", "a:1,,b:2", "http://a:1", "[host]:1", "a b:1"):
        with pytest.raises(ValueError, match="is not HOST:PORT, with an IPv6 address in brackets"):
            servers(wrong)
    with pytest.raises(ValueError, match="chroot"):
        servers("a:1,b:2/app")


@one_by_one(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_source_of_an_address(address: str, source: str) -> None:
    assert source_of(address) == source
