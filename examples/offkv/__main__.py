"""`python -m examples.offkv HOST:PORT ...`: run liboffkv's contract, print what passes and what not.

Exit codes: 0 if every line passes, 1 if one fails, 2 for wrong usage and for a server that cannot be reached.
"""

import argparse
import asyncio
import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from bench.environment import machine
from bench.scenarios import Table, markdown
from bench.servers import ETCD_OPTIONS
from examples.offkv.checking import Verdict, check_all, requests_of
from examples.offkv.conformance import LINES
from lab.client.session import Address, ConnectionLost
from lab.servers import BinaryMissing, EtcdServer, StartFailed, ZketcdServer, ZooKeeperServer
from proxy.etcd.model import EtcdError
from proxy.support.stdout import guarded
from proxy.support.usage import Parser, output_file

_ETCD = "etcd"
_ADDRESS = re.compile(r"(?:([^=]+)=)?\[?([^\[\]=]+)\]?:([0-9]{1,5})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code. Wrong usage exits with 2."""
    parser = Parser(prog="python -m examples.offkv", description="Check liboffkv's contract, line by line.")
    parser.add_argument("servers", nargs="*", type=_server, metavar="[LABEL=]HOST:PORT")
    parser.add_argument("--start", action="store_true", help="start zketcd, real ZooKeeper and an etcd")
    parser.add_argument("--etcd", metavar="URL", help="run directly on this etcd too, as liboffkv does there")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="where the results go as well")
    options = parser.parse_args(arguments)
    if options.start == bool(options.servers):
        parser.error("give servers' addresses or --start, and not both")
    facts = machine()
    try:
        with ExitStack() as stack:
            systems: dict[str, Sequence[Address | str]] = {
                label: [address] for label, address in options.servers
            }
            if options.start:
                systems = _started(stack)
            if options.etcd:
                systems[_ETCD] = [options.etcd]
            root = f"/offkv-{secrets.token_hex(4)}"
            verdicts = {
                label: asyncio.run(check_all(addresses, root)) for label, addresses in systems.items()
            }
    except (ConnectionLost, OSError, BinaryMissing, StartFailed, EtcdError, ValueError) as error:
        print(f"offkv: {error}", file=sys.stderr)
        return 2
    print(markdown(_table(verdicts)))
    failures = [
        f"offkv: FAILED at {label}: {verdict.line.operation} {verdict.line.promise}: {verdict.wrong}"
        for label, each in verdicts.items()
        for verdict in each
        if verdict.wrong
    ]
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr)
    lines = len(LINES) * len(verdicts)
    known = sum(bool(verdict.differs) for each in verdicts.values() for verdict in each)
    differ = f"; {known} are known to differ directly on etcd" if known else ""
    print(f"\n{lines - len(failures) - known} of {lines} lines pass{differ}")
    if options.json:
        options.json.write_text(json.dumps(_document(facts, verdicts), indent=1) + "\n")
    return 1 if failures else 0


def _server(value: str) -> tuple[str, Address]:
    """An argparse type."""
    found = _ADDRESS.fullmatch(value)
    if found is None:
        raise argparse.ArgumentTypeError(f"{value!r} is not [LABEL=]HOST:PORT")
    label, host, port = found.groups()
    return label or value, Address(host, int(port))


def _started(stack: ExitStack) -> dict[str, Sequence[Address | str]]:
    """Servers that live as long as the stack. Raises what lab.servers raises."""
    etcd = stack.enter_context(EtcdServer(*ETCD_OPTIONS))
    zketcd = stack.enter_context(ZketcdServer(etcd.endpoint, max_client_connections=0))
    zookeeper = stack.enter_context(ZooKeeperServer(max_client_connections=0))
    return {
        "zketcd": [Address("127.0.0.1", zketcd.port)],
        "ZooKeeper": [Address("127.0.0.1", zookeeper.port)],
        _ETCD: [etcd.endpoint],
    }


def _document(facts: Mapping[str, object], verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, Any]:
    return {
        "environment": dict(facts),
        "servers": {
            label: {"lines": {f"{each.line.operation} {each.line.promise}": _word(each) for each in found}}
            for label, found in verdicts.items()
        },
    }


def _table(verdicts: Mapping[str, Sequence[Verdict]]) -> Table:
    rows: list[list[str | int | float]] = [
        [
            line.operation,
            line.promise,
            requests_of(line),
            *(_word(each[number]) for each in verdicts.values()),
        ]
        for number, line in enumerate(LINES)
    ]
    return Table("liboffkv's contract", ["operation", "promise", "ZooKeeper requests", *verdicts], rows)


def _word(verdict: Verdict) -> str:
    return "FAILS" if verdict.wrong else verdict.differs or "passes"


if __name__ == "__main__":
    sys.exit(guarded(main, "offkv"))
