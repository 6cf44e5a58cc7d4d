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


def is_any(host: str) -> bool:
    """Whether a server that listens there takes connections at all of its host's addresses."""
    try:
        return host in ("", "*") or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def socket_address(address: str, port: int | str) -> str:
    """An address and a port, with brackets around IPv6: InetSocketAddress.toString since Java 14."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def listening_address(host: str, port: int) -> str:
    """The same for what a server listens on: `*` stands for all addresses of both families, as in `ss`."""
    return socket_address(host or "*", port)


def reachable_address(listening: str, host: str) -> str:
    """Where others reach what listens there, on the host of this name."""
    listens_on, _, port = listening.rpartition(":")
    return socket_address(host, int(port)) if is_any(listens_on.strip("[]")) else listening


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """The servers of HOST:PORT,HOST:PORT, as ZooKeeper's clients write them; the port is 2181 if left out.

    Raises ValueError, also for a chroot: commands take whole paths.
    """
    if "/" in text and "://" not in text:
        raise ValueError(
            f"{text!r} has a path behind the servers (a chroot): give whole paths of nodes instead"
        )
    found = []
    for server in text.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 0 < int(match[2] or _CLIENT_PORT) < 1 << 16:
            raise ValueError(f"{server!r} is not HOST:PORT, with an IPv6 address in brackets")
        found.append((match[1].strip("[]"), int(match[2] or _CLIENT_PORT)))
    return tuple(found)


def host_of(header: str) -> str:
    """The host in an HTTP request's Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_address(host: str) -> bool:
    """Whether this is no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public_name(host: str) -> bool:
    """Whether anybody may own this name in the DNS: it has a dot, and is no address."""
    return "." in host and not is_address(host)


def source_of(address: str) -> str:
    """The source of a client's address. One host may have all addresses of a /64 of IPv6."""
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
