"""Addresses of hosts."""

import pytest

from proxy.support.addresses import is_loopback, is_public_name, servers


def test_which_hosts_are_of_the_loopback_interface() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "", "local host")))


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
