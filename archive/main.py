"""The commands on an archive: `zketcd archive`, `history`, `diff`, `revert`.

Exit codes: 0 done; 1 not done, not completely, or damaged; 2 wrong usage. Those of diff are diff(1)'s: 0
equal, 1 different, 2 not done.
"""

import asyncio
import base64
import gc
import json
import os
import signal
from collections.abc import Sequence
from typing import Any

from archive import options
from archive.archiver.archiver import Archiver
from archive.archiver.stats import Stats
from archive.files.catalog import ArchiveError
from archive.files.moment import By, shown
from archive.files.store import Store, existing, store_of
from archive.past.deletion import Client, Deletes, last_deletion
from archive.past.difference import differences
from archive.past.history import Event, History
from archive.past.listing import listing
from archive.past.revert import Plan, plan
from archive.past.state import state_at
from archive.past.verify import verify
from archive.writing import write
from cli.client import Refused
from cli.connection import access_of, client_of, endpoints
from cli.output import counted, one_line, say, show, size
from cli.tree import tree_now
from cli.written import tree_to_write
from proxy.etcd.access import Access
from proxy.etcd.model import EtcdError
from proxy.log.record import TreeNotServable
from proxy.options.etcd import EtcdAccess
from proxy.state.machine import Machine
from proxy.support.logs import TEXT, configure
from proxy.support.stdout import has_failed
from schema.keys import Keyspace

parser = options.parser

_MOST_NAMED = 5  # clients, in a message


def main(arguments: Sequence[str], command: str) -> int:
    """Run one command; the exit code."""
    words = list(arguments)
    if command == "archive" and words[:1] in (["list"], ["verify"]):
        command = f"archive {words.pop(0)}"
    made = parser(command)
    given = made.parse_args(words)
    configure("INFO" if command == "archive" else "WARNING", TEXT, "archive")
    try:
        return _COMMANDS[command](given, made)
    except (ArchiveError, Refused, TreeNotServable, EtcdError, OSError, ValueError) as error:
        if isinstance(error, OSError) and has_failed():
            raise
        say(f"zketcd {command}: {error}")
        return 2 if command == "diff" else 1  # as diff(1)


def _archive(given: Any, made: Any) -> int:
    access, store = access_of(given, made), store_of(given.url)
    former = {each: signal.signal(each, _end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        asyncio.run(_follow(given, access, store))
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
    return 0


def _end(signum: int, _frame: object) -> None:
    """It may be killed at any time. asyncio would wait for the threads that wait for the store."""
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)  # the first process of a container, which no signal without a handler ends


async def _follow(given: Any, access: EtcdAccess, store: Store) -> None:
    stats = Stats(given.metrics)
    etcd = client_of(given, access)
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
    listed = listing(existing(given.url))
    if not listed.data["runs"] and not given.json:  # the name may be misspelt
        raise ArchiveError("the archive is empty")
    show(listed.text(given.json))
    return 0


def _verify(given: Any, _made: Any) -> int:
    files = bad = 0
    for found in verify(existing(given.url)):
        files += 1
        bad += bool(found.error)
        if given.json:
            show(json.dumps(found._asdict()), flush=True)
        elif found.error:
            show(f"{found.file}: {found.error}")
    if not given.json:
        show(f"{counted(files, 'file')} read, {bad} damaged" if files else "the archive is empty")
    return 1 if bad or not files else 0


def _history(given: Any, _made: Any) -> int:
    history = History(
        existing(given.archive),
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
        show(_json(event) if given.json else one_line(_line(event)))
    cost = history.cost
    read = f"read {cost.read} of {counted(cost.segments, 'segment')}, {size(cost.bytes)}"
    for last, first in history.gaps:
        say(f"gap: what happened in the entries {last + 1} to {first} is not archived")
    say(f"{counted(found, 'change')}; {read}")
    return 1 if history.gaps else 0


def _diff(given: Any, made: Any) -> int:
    store = existing(given.archive)
    before, after = (
        _now(given, made) if each.by is By.NOW else state_at(store, each)
        for each in (given.before, given.after)
    )
    found = 0
    for each in differences(before.tree.nodes, after.tree.nodes, given.path):
        found = 1
        was, now = (None if node is None else len(node.data or b"") for node in (each.before, each.after))
        if given.json:
            fields = {"path": each.path, "change": each.change, "fields": each.fields}
            show(json.dumps({**fields, "size_before": was, "size_after": now}))
        else:
            sizes = " -> ".join(f"{count} bytes" for count in (was, now) if count is not None)
            show(
                one_line(
                    " ".join(filter(None, (each.change, each.path, ",".join(each.fields), f"({sizes})")))
                )
            )
    return found


def _now(given: Any, made: Any) -> Machine:
    """The tree in etcd."""
    return tree_now(Access(endpoints(given), access_of(given, made)), given.prefix, given.timeout)


def _revert(given: Any, made: Any) -> int:
    store = existing(given.archive)
    deletion = last_deletion(store, given.path)
    if given.undelete:
        if deletion is None:
            raise ArchiveError(f"the archive has no deletion of {given.path}: --to names a moment")
        to, is_partial = deletion.deletes.before, bool(deletion.earlier)
        say(f"{_deleted(deletion.deletes)}: bringing back the state at {to}")
    else:
        to, is_partial = given.to, deletion is not None and deletion.deletes.cuts(given.to)
    past = state_at(store, to).tree.nodes
    undone = None if given.until is None else state_at(store, given.until).tree.nodes
    with tree_to_write(given, made, lambda: _now(given, made)) as (now, client):
        planned = plan(past, undone, now.tree.nodes, given.path, force=given.force)
        _show_plan(planned, as_json=given.json)
        if deletion is not None and deletion.earlier and given.undelete:
            say(_earlier(deletion.earlier))
        elif deletion is not None and is_partial:
            say(
                f"{_deleted(deletion.deletes)}; {to} lies within that, when part of them was deleted already:"
                " --undelete brings back all of them"
            )
        if client and planned.steps:
            for done in write(client, planned.steps):
                say(f"{done} of {counted(len(planned.steps), 'step')} done")
        elif planned.steps:
            say("nothing was written: --yes writes it")
    return 1 if planned.conflicts or is_partial else 0


def _show_plan(planned: Plan, *, as_json: bool) -> None:
    for step in planned.steps:
        if as_json:
            show(json.dumps({"step": step.kind.value, "path": step.path, "times": step.times}))
        else:
            show(one_line(f"{step.kind.value} {step.path}" + (f" by {step.times}" if step.times else "")))
    for what, items in (("conflict", planned.conflicts), ("left out", planned.left_out)):
        for path, why in items:
            show(json.dumps({what: path, "why": why}) if as_json else one_line(f"{what}: {path}: {why}"))
    if planned.conflicts:
        say("what has changed since is left as it is: --force reverts it as well")


def _deleted(deletes: Deletes) -> str:
    """Who deleted how many nodes, and when."""
    return (
        f"{_named(deletes.clients)} deleted {counted(deletes.nodes, 'node')}"
        f" from {shown(deletes.first.time)} to {shown(deletes.last.time)}"
    )


def _earlier(others: Sequence[Deletes]) -> str:
    """What `--undelete` leaves out, oldest first; in one line, as there may be hundreds."""
    return (
        f"before that, {_named(frozenset().union(*(each.clients for each in others)))} deleted nodes as well"
        f" from {shown(others[0].first.time)} to {shown(max(each.last.time for each in others))}."
        " They may be of another deletion and are left out:"
        f" --to 0x{others[0].before.value:x} brings these back too, but not what was changed in between"
    )


def _named(clients: frozenset[Client]) -> str:
    """Some of them."""
    who = sorted(",".join((f"session {session}", *identities)) for session, identities in clients)
    more = [counted(len(who) - _MOST_NAMED, "other")] if len(who) > _MOST_NAMED else []
    return " and ".join(who[:_MOST_NAMED] + more)


def _json(event: Event) -> str:
    fields = {**event._asdict(), "time": shown(event.time), "zxid": f"0x{event.zxid:x}"}
    data = fields.pop("data")
    if data is not None:
        fields["data_base64"] = base64.b64encode(data).decode()
    return json.dumps(fields)


def _line(event: Event) -> str:
    now = f"version {event.after}, {event.size_after} bytes"
    was = f"was version {event.before}, {event.size_before} bytes"
    what = "; ".join(
        text for text, is_there in ((now, event.after), (was, event.before)) if is_there is not None
    )
    words = [
        f"{shown(event.time)} 0x{event.zxid:x} {event.change} {event.path} ({what})",
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
    "diff": _diff,
    "history": _history,
    "revert": _revert,
}
