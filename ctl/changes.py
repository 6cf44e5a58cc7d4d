"""Commands that change something: `snapshot`, `void` and `kill-session`."""

from argparse import ArgumentParser
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from cli.output import CommandFailed, Output, counted, size
from codec.longs import hex64
from ctl.program import Program, Tree
from ctl.sessions import add_id
from ctl.visitor import append, visit
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, EtcdNoSpace, Get, Put, Txn
from proxy.etcd.repeating import until_known
from proxy.log.load.start import load_as_of
from proxy.log.record import TIMEOUT, Registered, incarnation_of, living_of, look, servable
from proxy.log.upkeep.snapshot_writer import WriteFailed, write
from proxy.log.upkeep.truncation import Overtaken, applied_in
from proxy.options import values
from proxy.state.level import KNOWN
from proxy.support.environment import clock_ms
from proxy.support.user import host_name, user_name
from schema.entry import KILLED, Kind, decode_entry, encode_close, encode_void
from schema.errors import BadValue
from schema.keys import Keyspace


async def snapshot(etcd: Etcd, keys: Keyspace) -> Output:
    """Write a snapshot as of now, and truncate."""
    found = await look(etcd, keys)
    servable(found, keys, KNOWN)
    try:
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(visit(etcd, keys))
            except EtcdNoSpace:
                # etcd grants no leases while it is full, and a snapshot is what makes space. So it is written
                # in the name of a living proxy. If that one writes a snapshot as well, one of the two fails.
                if not (servers := living_of(found, keys).servers):
                    raise
                writer = Registered(servers[0].incarnation, servers[0].revision)
            result = await write(etcd, keys, writer)
    except (WriteFailed, Overtaken) as error:
        raise CommandFailed(f"no snapshot was written: {error}") from error
    ref = result.ref
    if ref is None:
        lines = ["no snapshot was written: nothing has been appended to the log since the current one"]
    else:
        lines = [
            f"wrote the snapshot {ref.name}: {ref.nodes} znodes, {ref.sessions} sessions, {size(ref.bytes)},"
            f" zxid 0x{ref.zxid:x}, in {result.seconds:.1f} s"
        ]
    if ref is not None or result.entries_deleted or result.pages_deleted:
        lines.append(
            f"deleted {result.entries_deleted} entries and {result.pages_deleted} old snapshot pages"
        )
    return Output(result.as_json(), lines)


async def void(etcd: Etcd, keys: Keyspace, incarnation: str, number: int, *, force: bool) -> Output:
    """Overwrite an entry by one without requests.

    Its position changes with that, so it must not be done while a proxy lives that may have applied it.
    """
    found = await look(etcd, keys)
    record = servable(found, keys, KNOWN)
    living = [incarnation_of(keys, proxy) for proxy in found.proxies]
    if living and not force:
        stale = "".join(
            f". The key {proxy.key.decode()} has no lease: no proxy has put it, so delete it"
            for proxy in found.proxies
            if not proxy.lease
        )
        raise CommandFailed(
            f"the tree is served by {', '.join(living)}. Stop these proxies first (a dead one counts for some"
            f" seconds), or use --force{stale}"
        )
    if record.current is not None:
        applied = await applied_in(etcd, keys, record.current.name)
        if applied is not None and applied.get(incarnation, 0) >= number:
            raise CommandFailed(
                f"the snapshot {record.current.name} holds what entry {number} of {incarnation} has done: a"
                " start does not read the entry"
            )
    key = keys.entry(incarnation, number)
    entry = await etcd.range(Get(key), TIMEOUT)
    if not entry.kvs:
        raise CommandFailed(f"there is no entry {number} of {incarnation} in the log")
    (kv,) = entry.kvs
    try:
        requests = len(decode_entry(kv.value).requests)
    except BadValue:
        requests = -1
    compares = (
        Compare(keys.tree, found.revision + 1, less=True),
        Compare(keys.proxies, found.revision + 1, keys.proxies_end, less=True),  # no proxy has come
        Compare(key, kv.mod_revision),
    )
    nothing = encode_void(clock_ms())
    txn = Txn(compares, (Txn((), (Put(key, nothing),)),))
    answer = await until_known(etcd.txn, txn, TIMEOUT)
    if not answer.succeeded:
        there = (await until_known(etcd.range, Get(key), TIMEOUT)).kvs
        if not there or there[0].value != nothing:  # else a try did it whose answer was lost
            raise CommandFailed(
                f"entry {number} of {incarnation} was changed or truncated, the tree's record was put, or a"
                " proxy has come, at the same moment. Run the command again"
            )
    lost = "its requests, which could not be read," if requests < 0 else counted(requests, "request")
    return Output(
        {"proxy": incarnation, "number": number, "requests": None if requests < 0 else requests},
        [f"entry {number} of {incarnation} is void; {lost} will have no effect"],
    )


async def kill_session(etcd: Etcd, keys: Keyspace, session_id: int) -> Output:
    """End a session, as its proxy does when the client is silent: by an entry of the log."""
    name = hex64(session_id)
    servable(await look(etcd, keys), keys, KNOWN)
    loaded = await load_as_of(etcd, keys)
    session = loaded.machine.sessions.get(session_id)
    if session is None:
        raise CommandFailed(f"there is no session {name}; `zketcd sessions` lists them")
    ephemerals = sorted(loaded.machine.tree.ephemerals.get(session_id, ()))
    who = f"{user_name()}@{host_name()} (zketcd kill-session)"
    request = Kind.CLOSE, session_id, encode_close(f"{KILLED}{who}", "")
    if not await append(etcd, keys, request):
        raise CommandFailed(f"session {name} was not ended: this command was too slow. Run it again")
    return Output(
        {"session": name, "proxy": session.incarnation, "ephemerals": ephemerals},
        [f"session {name} is ended, with {counted(len(ephemerals), 'ephemeral')}", *ephemerals],
    )


def _of_void(parser: ArgumentParser) -> None:
    parser.add_argument(
        "incarnation",
        metavar="INCARNATION",
        help="incarnation that appended the entry, from the proxy's error message",
    )
    parser.add_argument("number", type=values.positive, metavar="NUMBER", help="the entry's number")
    parser.add_argument(
        "--force",
        action="store_true",
        help="do it even while proxies live. A proxy that has already applied the entry then has a different"
        " tree",
    )


def _void(tree: Tree, given: Any) -> Output:
    asked = partial(void, incarnation=given.incarnation, number=given.number, force=given.force)
    return tree.ask(asked)


PROGRAMS = {
    "snapshot": Program(lambda tree, _given: tree.ask(snapshot)),
    "void": Program(_void, _of_void),
    "kill-session": Program(
        lambda tree, given: tree.ask(partial(kill_session, session_id=given.session)), add_id
    ),
}
