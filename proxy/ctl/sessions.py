"""The sessions of the tree, and the clients that the proxies' admin ports name for them."""

import ipaddress
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from proxy.ctl.output import Output, WrongUsage, table
from proxy.state.machine import Machine
from proxy.state.sessions import session_text
from proxy.support.addresses import is_loopback
from schema.record import Home

_MASK = (1 << 64) - 1
#: Seconds for the answer of one proxy.
TIMEOUT = 3.0
#: Proxies that are asked.
AT_ONCE = 16

Clients = Mapping[int, str]
"""The client's HOST:PORT of each session."""


def clients_of(homes: Mapping[str, Home]) -> tuple[Clients, list[str]]:
    """The clients of all sessions that the proxies name, and why some do not. Blocks."""
    found: dict[int, str] = {}
    unknown = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (name, home), answer in zip(homes.items(), pool.map(_asked, homes.values()), strict=True):
            if isinstance(answer, str):
                unknown.append(f"the clients of proxy {name} on {home.host or 'an unknown host'}: {answer}")
            else:
                found.update(answer)
    return found, unknown


def unreachable(home: Home) -> str:
    """Why a proxy's admin port cannot be asked from here; "" if it can."""
    if not home.admin:
        return "it has no admin port"
    if is_loopback(urlsplit(home.admin).hostname or "") and home.host != socket.gethostname():
        return f"run this command there: its admin port {home.admin} is of its loopback interface"
    return ""


def _asked(home: Home) -> Clients | str:
    """The clients of one proxy, or why they are not known."""
    if reason := unreachable(home):
        return reason
    try:
        # Not by a proxy of the environment: the address is one of the cluster's.
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{home.admin}/commands/connections", timeout=TIMEOUT) as answer:
            document = json.load(answer)
        if document["error"]:
            return str(document["error"])
        found = {
            int(each["session_id"]) & _MASK: str(each["remote_socket_address"])
            for each in document["connections"]
        }
        for client in found.values():
            _host(client)  # raises ValueError for what is no address
        return found
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"{home.admin} does not answer: {error}"


def show(machine: Machine, homes: Mapping[str, Home], clients: Clients, given: Any) -> Output:
    """The sessions that `given` asks for, with the proxy that holds each. Raises WrongUsage."""
    wanted = _filter(getattr(given, "client", None))
    rows = [
        row
        for row in _rows(machine, homes, clients)
        if wanted(row["client"]) and getattr(given, "proxy", None) in (None, row["proxy"], row["host"])
    ]
    order = getattr(given, "sort", "session")
    rows.sort(key=_ORDERS[order])
    return Output(
        rows,
        table(
            ("session", "timeout_ms", "proxy", "ephemerals", "host", "client"),
            [
                (
                    row["session"],
                    row["timeout_ms"],
                    row["proxy"],
                    len(row["ephemerals"]),
                    row["host"] or "-",
                    row["client"] or "-",
                )
                for row in rows
            ],
        ),
    )


def _rows(machine: Machine, homes: Mapping[str, Home], clients: Clients) -> Iterator[dict[str, Any]]:
    for session in sorted(machine.sessions.values(), key=lambda session: session.id & _MASK):
        home = homes.get(session.incarnation)
        yield {
            "session": session_text(session.id),
            "timeout_ms": session.timeout_ms,
            "proxy": session.incarnation,
            "host": home.host if home else "",
            "client": clients.get(session.id & _MASK),
            "ephemerals": sorted(machine.tree.ephemerals.get(session.id, ())),
        }


_ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "session": lambda row: int(row["session"], 16),
    "client": lambda row: _place(row["client"]),
    "proxy": lambda row: (row["host"], row["proxy"]),
    "timeout": lambda row: row["timeout_ms"],
    "ephemerals": lambda row: -len(row["ephemerals"]),
}


def _host(client: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(client.rpartition(":")[0].strip("[]"))


def _place(client: str | None) -> tuple[bool, int, int, str]:
    """By address; sessions without a known client are last."""
    if client is None:
        return True, 0, 0, ""
    host = _host(client)
    return False, host.version, int(host), client


def _filter(client: str | None) -> Callable[[str | None], bool]:
    """Whether a client's HOST:PORT is asked for. Raises WrongUsage."""
    if client is None:
        return lambda _: True
    try:
        network = ipaddress.ip_network(client)
    except ValueError as error:
        raise WrongUsage(f"--client: {error}") from error

    def is_in(address: str | None) -> bool:
        return address is not None and _host(address) in network

    return is_in
