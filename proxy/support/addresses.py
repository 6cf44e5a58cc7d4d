"""Addresses of hosts. Pure."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is of the loopback interface."""
    try:
        address = ipaddress.ip_address(host)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def socket_address(address: str, port: int) -> str:
    """An address and a port, with brackets around IPv6: InetSocketAddress.toString since Java 14."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def host_of(header: str) -> str:
    """The host in an HTTP request's Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_public_name(host: str) -> bool:
    """Whether anybody may own this name in the DNS: it has a dot, and is no address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." in host
    return False
