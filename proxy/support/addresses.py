"""Addresses of hosts. Pure."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is of the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
