"""Where this proxy runs, as its key in etcd says it."""

import ipaddress
import socket
from collections.abc import Mapping

from proxy.config import Config
from proxy.support.environment import HOST
from schema.record import Home


def home_of(config: Config, listeners: Mapping[str, socket.socket], *, takes_over: bool) -> Home:
    """The addresses that clients and operators can use.

    `listeners`: the sockets that are held, "main" and "admin". A process that takes over gets them later; the
    addresses are those of its configuration then.
    """
    name = socket.gethostname()
    admin = config.admin if takes_over or "admin" in listeners else None
    return Home(
        name,
        _address(config.host, _port(listeners.get("main"), config.port)),
        "" if admin is None else _admin_url(config, admin[0], _port(listeners.get("admin"), admin[1]), name),
        int(HOST.clock.time() * 1000),
    )


def _port(listener: socket.socket | None, configured: int) -> int:
    return configured if listener is None else int(listener.getsockname()[1])


def _admin_url(config: Config, host: str, port: int, name: str) -> str:
    scheme = "https" if config.admin_tls else "http"
    return f"{scheme}://{_address(name if _is_any(host) else host, port)}"


def _is_any(host: str) -> bool:
    """Whether a server that listens there takes connections at all of the host's addresses."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
