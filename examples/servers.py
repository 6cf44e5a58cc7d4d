"""Where a program runs: on servers that its options name, or on zketcd and real ZooKeeper that it starts."""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench.servers import ETCD_OPTIONS
from lab.client.session import Address
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:,\[\]=]+)):([0-9]{1,5})")


class Server(NamedTuple):
    """One ensemble, or proxies that share a tree."""

    label: str
    addresses: Sequence[Address]


def add_servers(parser: argparse.ArgumentParser) -> None:
    """The options that say where a program runs."""
    add = parser.add_argument
    add(
        "server",
        nargs="?",
        type=_server,
        metavar="[LABEL=]HOST:PORT[,HOST:PORT...]",
        help="the server; several addresses of one tree: the simulated hosts spread over them",
    )
    add(
        "--beside", type=_server, metavar="[LABEL=]HOST:PORT[,...]", help="run on this server too and compare"
    )
    add(
        "--start", action="store_true", help="start zketcd with its own etcd and real ZooKeeper, compare them"
    )
    add("--below", type=_node, default="/", metavar="PATH", help="where the run makes its node (default: /)")


def check_servers(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the process with 2 where the options of `add_servers` contradict each other."""
    if options.start == (options.server is not None):
        parser.error("give a server's address or --start, and not both")
    if options.start and options.beside:
        parser.error("--start compares with a ZooKeeper that it starts: leave --beside out")
    if options.beside and options.beside.label == options.server.label:
        parser.error(f"both servers have the label {options.server.label}")


def servers_of(stack: ExitStack, options: argparse.Namespace) -> list[Server]:
    """Those that the options name, or that are started for as long as the stack lives."""
    if options.start:
        return stack.enter_context(_started())
    return [options.server, *([options.beside] if options.beside else [])]


def _server(value: str) -> Server:
    """An argparse type: [LABEL=]HOST:PORT[,HOST:PORT...]."""
    label, equals, listed = value.rpartition("=")
    found = []
    for each in listed.split(","):
        match = _ADDRESS.fullmatch(each)
        if match is None or not 0 < int(match[3]) < 65_536:
            raise argparse.ArgumentTypeError(f"{each!r} isn't HOST:PORT")
        found.append(Address(match[1] or match[2], int(match[3])))
    if equals and not label:
        raise argparse.ArgumentTypeError(f"{value!r} has an empty label")
    return Server(label or listed, found)


def _node(value: str) -> str:
    if value == "/" or re.fullmatch(r"(?:/[^/\s]+)+", value):
        return value.rstrip("/")
    raise argparse.ArgumentTypeError(f"{value!r} isn't the path of a node")


@contextmanager
def _started() -> Iterator[list[Server]]:
    """zketcd on an etcd, and one ZooKeeper. Raises what lab.servers raises."""
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
        zketcd = stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0))
        # The JVM's default heap: the harness's small one is for tests.
        zookeeper = stack.enter_context(ZooKeeperServer(max_client_connections=0, java_options=()))
        yield [
            Server("zketcd", [Address("127.0.0.1", zketcd.port)]),
            Server("ZooKeeper", [Address("127.0.0.1", zookeeper.port)]),
        ]
