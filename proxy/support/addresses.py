"""Addresses of hosts. Pure."""

import ipaddress
import re

_CLIENT_PORT = 2181
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]/:\s]+)(?::(\d{1,5}))?")


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


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """The servers of HOST:PORT,HOST:PORT, as ZooKeeper's clients write them; the port is 2181 if left out.

    Raises ValueError, also for a chroot: commands take whole paths.
    """
    hosts, slash, _ = text.partition("/")
    if slash and "://" not in text:
        raise ValueError(
            f"{text!r} has a path behind the servers (a chroot): give whole paths of nodes instead"
        )
    found = [_SERVER.fullmatch(each.strip()) for each in hosts.split(",")]
    pairs = [(each[1].strip("[]"), int(each[2] or _CLIENT_PORT)) for each in found if each]
    if slash or len(pairs) < len(found) or not all(0 < port < 1 << 16 for _, port in pairs):
        raise ValueError(f"{text!r} is not HOST:PORT,HOST:PORT,..., with IPv6 addresses in brackets")
    return tuple(pairs)


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
