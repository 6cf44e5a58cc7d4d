"""The sessions of the tree, and the clients that the proxies' admin ports name for them."""

import ipaddress
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cli.output import Output, WrongUsage, say, table
from codec.longs import hex64, unsigned
from ctl.admin import ask_all
from ctl.program import Program, Tree
from proxy.state.machine import Machine
from schema.record import Home

Clients = Mapping[int, str]
"""The client's HOST:PORT of each session."""


def clients_of(homes: Mapping[str, Home]) -> tuple[Clients, list[str]]:
    """The clients of all sessions that the proxies name, and why some do not. Blocks."""
    found: dict[int, str] = {}
    unknown = []
    for name, answer in ask_all(homes, "connections").items():
        clients = answer if isinstance(answer, str) else _clients_in(answer)
        if isinstance(clients, str):
            host = homes[name].host or "an unknown host"
            unknown.append(f"the clients of proxy {name} on {host}: {clients}")
        else:
            found.update(clients)
    return found, unknown


def _clients_in(document: Mapping[str, Any]) -> Clients | str:
    """The clients that a proxy names, or why they are not known."""
    try:
        found = {
            unsigned(int(each["session_id"])): str(each["remote_socket_address"])
            for each in document["connections"]
        }
        for client in found.values():
            _host(client)  # raises ValueError for what is no address
        return found
    except (ValueError, LookupError, TypeError) as error:
        return f"it does not answer as a proxy does: {error}"


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
    for session in sorted(machine.sessions.values(), key=lambda session: unsigned(session.id)):
        home = homes.get(session.incarnation)
        yield {
            "session": hex64(session.id),
            "timeout_ms": session.timeout_ms,
            "proxy": session.incarnation,
            "host": home.host if home else "",
            "client": clients.get(unsigned(session.id)),
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


def add_id(parser: ArgumentParser) -> None:
    """Add the session that a command is about."""
    parser.add_argument("session", type=_session_id, metavar="ID", help="its id, as `sessions` prints it")


def _session_id(text: str) -> int:
    try:
        number = int(text, 16)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no session's id, such as 0x10000a3b2c40001") from None
    if not 0 <= number < 1 << 64:
        raise ArgumentTypeError(f"{text!r} is no session's id: it has more than 64 bits")
    return number - ((number >> 63) << 64)


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--client",
        metavar="ADDRESS",
        help="only those of clients with this address, or in this network (10.0.0.0/8)",
    )
    add("--proxy", metavar="NAME", help="only those of this proxy: its incarnation or its host")
    add(
        "--sort",
        choices=tuple(_ORDERS),
        default="session",
        help="the order; ephemerals: those with most come first",
    )


def _run(tree: Tree, given: Any) -> Output:
    homes = tree.homes()
    machine = tree.machine()
    clients, unknown = clients_of(homes)
    for line in unknown:
        say(f"zketcd sessions: {line}")
    return show(machine, homes, clients, given)


PROGRAMS = {"sessions": Program(_run, _arguments)}
