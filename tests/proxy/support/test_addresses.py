"""Addresses of hosts."""

from proxy.support.addresses import is_loopback, is_public_name


def test_which_hosts_are_of_the_loopback_interface() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "", "local host")))


def test_public_names() -> None:
    assert all(map(is_public_name, ("evil.example", "127.0.0.1.evil.example", "localhost.")))
    assert not any(map(is_public_name, ("localhost", "host", "10.0.0.1", "::1", "")))
