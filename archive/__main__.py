"""Start of the commands on an archive: `zketcd archive`, `zketcd history`.

Exit codes: 0 done; 1 not done; 2 wrong usage.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Sequence
from typing import Any

from archive import options
from archive.catalog import ArchiveError
from archive.follower import Archiver
from archive.history import Event, History
from archive.listing import listing
from archive.moment import shown
from archive.stats import Stats
from archive.store import Store, store_of
from archive.verify import verify
from proxy.ctl.__main__ import EMBEDDED, access_of, client_of
from proxy.ctl.output import CommandFailed, counted, size, visible
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeNotServable
from proxy.support.logs import TEXT, configure
from schema.keys import Keyspace

parser = options.parser


def main(arguments: Sequence[str] | None = None, command: str = "archive") -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if command == "archive" and words[:1] in (["list"], ["verify"]):
        command = f"archive {words.pop(0)}"
    made = parser(command)
    given = made.parse_args(words)
    configure("INFO" if command == "archive" else "WARNING", TEXT, "archive")
    try:
        return _COMMANDS[command](given, made)
    except (ArchiveError, CommandFailed, TreeNotServable, EtcdError, OSError, ValueError) as error:
        print(f"zketcd {command}: {error}", file=sys.stderr)
        return 1


def show(line: str) -> None:
    """Print a line; on a terminal without control characters."""
    print(visible(line) if sys.stdout.isatty() else line)


def _archive(given: Any, made: Any) -> int:
    if not given.etcd:
        made.error(EMBEDDED)
    asyncio.run(_follow(given, store_of(given.url)))
    return 0


async def _follow(given: Any, store: Store) -> None:
    stats = Stats(given.metrics)
    etcd = client_of(given, access_of(given))
    try:
        gc.freeze()
        await Archiver(
            etcd,
            Keyspace(given.prefix),
            store,
            keep_ms=given.keep,
            accept_cluster=given.accept_cluster,
            stats=stats,
        ).run()
    finally:
        await etcd.close()


def _list(given: Any, _made: Any) -> int:
    show(listing(store_of(given.url)).text(given.json))
    return 0


def _verify(given: Any, _made: Any) -> int:
    files = bad = 0
    for found in verify(store_of(given.url)):
        files += 1
        bad += bool(found.error)
        if given.json:
            print(json.dumps(found._asdict()), flush=True)
        elif found.error:
            show(f"{found.file}: {found.error}")
    if not given.json:
        print(f"{counted(files, 'file')} read, {bad} damaged" if files else "the archive is empty")
    return 1 if bad or not files else 0


def _history(given: Any, _made: Any) -> int:
    history = History(
        store_of(given.archive),
        given.path,
        since=given.since,
        until=given.until,
        recursive=given.recursive,
        data=given.data,
    )
    found = 0
    for event in history.events():
        if given.deleted and event.change != "deleted":
            continue
        found += 1
        show(_json(event) if given.json else _line(event))
    cost = history.cost
    read = f"read {cost.read} of {counted(cost.segments, 'segment')}, {size(cost.bytes)}"
    print(f"{counted(found, 'change')}; {read}", file=sys.stderr)
    return 0


def _json(event: Event) -> str:
    fields = {**event._asdict(), "time": shown(event.time), "zxid": f"0x{event.zxid:x}"}
    data = fields.pop("data")
    if data is not None:
        fields["data"] = data.decode(errors="backslashreplace")
    return json.dumps(fields)


def _line(event: Event) -> str:
    versions = "->".join("-" if version is None else str(version) for version in (event.before, event.after))
    words = [
        f"{shown(event.time)} 0x{event.zxid:x} {event.change} {event.path} version {versions}",
        f"bytes {event.size_after if event.size_after is not None else '-'}",
        f"by {event.operation} of session {event.session}",
        ",".join(event.identities),
        f"({event.reason})" if event.reason else "",
        "" if event.data is None else f"data {event.data.decode(errors='backslashreplace')}",
    ]
    return " ".join(filter(None, words))


_COMMANDS = {
    "archive": _archive,
    "archive list": _list,
    "archive verify": _verify,
    "history": _history,
}

if __name__ == "__main__":
    sys.exit(main())
