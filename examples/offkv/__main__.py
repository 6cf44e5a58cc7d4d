"""`python -m examples.offkv HOST:PORT`: run the list of liboffkv's contract, print what passes and what not.

Exit codes: 0 if every line passes, 1 if one fails, 2 for wrong usage and for a server that cannot be reached.
"""

import asyncio
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from bench.scenarios import Table, markdown
from examples import program
from examples.offkv.checking import Verdict, check_all, requests_of
from examples.offkv.conformance import LINES
from examples.servers import Server
from lab.client.session import ConnectionLost
from lab.servers import BinaryMissing, StartFailed
from proxy.support.stdout import guarded
from proxy.support.usage import Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code. Wrong usage exits with 2."""
    parser = Parser(
        prog="python -m examples.offkv",
        description="Check liboffkv's contract, line by line.",
        allow_abbrev=False,
    )
    program.add_servers(parser)
    options = parser.parse_args(arguments)
    program.check_servers(parser, options)
    try:
        with ExitStack() as stack:
            servers = program.servers_of(stack, options)
            verdicts = {each.label: _checked(each, options.below) for each in servers}
    except (ConnectionLost, OSError, BinaryMissing, StartFailed) as error:
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
    print(f"\n{len(LINES) * len(verdicts) - len(failures)} of {len(LINES) * len(verdicts)} lines pass")
    return 1 if failures else 0


def _checked(each: Server, below: str) -> list[Verdict]:
    return asyncio.run(check_all(each.addresses, f"{below}/offkv-{secrets.token_hex(4)}"))


def _table(verdicts: dict[str, list[Verdict]]) -> Table:
    rows: list[list[str | int | float]] = [
        [
            line.operation,
            line.promise,
            requests_of(line),
            *("FAILS" if each[number].wrong else "passes" for each in verdicts.values()),
        ]
        for number, line in enumerate(LINES)
    ]
    return Table("liboffkv's contract", ["operation", "promise", "ZooKeeper requests", *verdicts], rows)


if __name__ == "__main__":
    sys.exit(guarded(main, "offkv"))
