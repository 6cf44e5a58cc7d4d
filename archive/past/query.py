"""Answers one question of the admin port: `python -m archive.past.query`, a child of a proxy.

It loads the tree as a starting proxy does, or a moment of the archive, so the proxy's clients do not notice
it. On stdout: one line of JSON, {"zxid"} or {"status", "error"}, then the table in parts. It waits while its
reader is slow, and ends when its stdin is closed.
"""

import gc
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from archive.files.catalog import ArchiveError, NotArchived
from archive.files.moment import moment
from archive.files.store import existing
from archive.past import rows
from archive.past.history import History
from archive.past.state import state_at
from cli.tree import tree_now
from proxy.etcd.access import Access
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeNotServable
from proxy.state.auth.scheme import Identity
from proxy.state.machine import Machine
from proxy.support.child import begin
from proxy.support.environment import clock_ms
from proxy.support.libraries import how_to_add

log = logging.getLogger(__name__)

_TIMEOUT = 30.0  # seconds for etcd
_CHUNK = 1 << 16


class _Refused(Exception):
    """The question has no answer; the status of HTTP and why."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


def answer(given: dict[str, Any]) -> Iterator[bytes]:
    """The header, then the table. Raises _Refused before the first part of the table."""
    encode = _encoder(given["format"])
    now = clock_ms()
    path, identities = given["path"], tuple([Identity(*each) for each in given["identities"]])
    if given["table"] == "history":
        since, until = (moment(given[name], now) if given[name] else None for name in ("since", "until"))
        history = History(
            existing(given["url"]), path, since=since, until=until, recursive=given["recursive"]
        )
        machine = _tree(given, now)
        if not rows.may_see(machine, path, identities):
            raise _Refused(403, f"the ACL of {path} or of a znode above it does not let this login read it")
        events = (each for each in history.events() if rows.may_see(machine, each.path, identities))
        first = list(islice(events, 1))  # an archive that cannot be read is found here
        yield _line({"zxid": 0})
        yield from encode(map(rows.history, chain(first, events)), rows.HISTORY)
        if history.gaps:
            raise ArchiveError("entries of that time are not archived (`zketcd archive list` shows the gaps)")
        return
    machine = _tree(given, now)
    if path not in machine.tree.nodes:
        raise _Refused(404, f"there is no znode {path}")
    yield _line({"zxid": machine.zxid})
    yield from encode(rows.tree(machine, path, identities), rows.TREE)


def _tree(given: dict[str, Any], now: int) -> Machine:
    """As of the moment that is asked for."""
    if given["at"]:
        return state_at(existing(given["url"]), moment(given["at"], now))
    return tree_now(Access.from_json(given), given["prefix"], _TIMEOUT)


def _encoder(name: str) -> rows.Encode:
    if name in rows.ENCODERS:
        return rows.ENCODERS[name]
    try:
        from archive.past.parquet import parquet
    except ImportError as error:
        raise _Refused(501, f"format=parquet: {error}: {how_to_add('pipeline-small')}") from error
    return parquet


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def main() -> int:
    """One answer: 0; 1 if there is none, or not all of it."""
    gc.disable()
    given = begin("query")
    threading.Thread(target=_end_with_the_proxy, daemon=True).start()
    out = sys.stdout.buffer
    began = False
    try:
        waiting = b""
        for part in answer(given):
            began = True
            waiting += part
            if len(waiting) >= _CHUNK:
                out.write(waiting)
                waiting = b""
        out.write(waiting)
        out.flush()
    except BrokenPipeError:
        os._exit(1)
    except (ArchiveError, EtcdError, TreeNotServable, OSError, ValueError, _Refused) as error:
        if began:
            log.error("%s of %s is not complete: %s", given["table"], given["path"], error)
            return 1
        status = 404 if isinstance(error, NotArchived) else getattr(error, "status", 503)
        status = 400 if isinstance(error, ValueError) else status
        out.write(_line({"status": status, "error": str(error)}))
        out.flush()
        return 1
    return 0


def _end_with_the_proxy() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
