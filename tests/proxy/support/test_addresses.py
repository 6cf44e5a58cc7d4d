"""Addresses of hosts."""

from proxy.support.addresses import is_loopback


def test_which_hosts_are_of_the_loopback_interface() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "", "local host")))
