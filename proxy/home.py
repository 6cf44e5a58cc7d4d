"""Where this proxy runs, as its key in etcd says it."""

import socket
from collections.abc import Mapping

from proxy.config import Config
from proxy.support.addresses import is_any, listening_address, socket_address
from proxy.support.environment import HOST, clock_ms
from proxy.support.user import host_name
from schema.record import Home, PeerPort


def numbers_of(listeners: Mapping[str, socket.socket]) -> dict[str, int]:
    """The numbers of ports that are held, by name."""
    return {name: int(listener.getsockname()[1]) for name, listener in listeners.items()}


def home_of(config: Config, ports: Mapping[str, int]) -> Home:
    """The addresses that clients and operators can use.

    `ports`: those that are held, "main" and "admin", or those of the process that this one takes over from.
    The configured port may be any (0), and the admin port may be another program's.
    """
    name = host_name()
    admin = config.admin if "admin" in ports else None
    return Home(
        name,
        listening_address(config.host, ports.get("main", config.port)),
        "" if admin is None else _admin_url(config, admin[0], ports["admin"], name),
        clock_ms(),
    )


def peer_port_of(config: Config, ports: Mapping[str, int]) -> PeerPort:
    """Where this proxy takes entries of others, if it does, and its secret. `ports`: as `home_of`."""
    if config.peer_listen is None:
        return PeerPort()
    host, port = config.peer_advertise or (config.peer_listen[0], ports.get("peer", config.peer_listen[1]))
    if not port:  # any, and another process holds it still
        return PeerPort()
    name = host_name() if is_any(host) else host
    return PeerPort(socket_address(name, port), HOST.randomness.token_bytes(32))


def _admin_url(config: Config, host: str, port: int, name: str) -> str:
    scheme = "https" if config.admin_tls else "http"
    return f"{scheme}://{socket_address(name if is_any(host) else host, port)}"
