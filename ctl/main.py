"""Parse, connect, run one command, print. Exit codes: 0 done, 1 not done, 2 wrong usage."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cli.client import Refused, connected
from cli.connection import access_of, client_of, endpoints, tree_in
from cli.output import CommandFailed, Output, WrongUsage, say, show
from ctl import backup, budgets, changes, clickhouse, history, life, reading, sessions, top, unseal
from ctl.options import PAST, parser
from proxy.etcd.access import Access
from proxy.etcd.failures import for_operator
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError, EtcdUnknown, Get
from proxy.log.follow.catch_up import Loaded
from proxy.log.load.start import Wanted, load_as_of
from proxy.log.record import TreeNotServable, living_of, look
from proxy.options.etcd import EtcdAccess
from proxy.options.table import values_of
from proxy.state.machine import Machine
from proxy.support.environment import clock_ms
from schema.entry import Written
from schema.keys import Keyspace
from schema.record import Home

_RETRY = 0.2  # seconds between two tries to reach etcd


def main(arguments: Sequence[str], command: str) -> int:
    """Run one command; the exit code."""
    options = parser(command)
    given = options.parse_args(arguments)
    access = access_of(given, options)
    if given.command == "budget" and (given.action == "list") == bool(given.budgets):
        options.error(
            "budget list takes no BUDGET" if given.budgets else f"budget {given.action} needs a BUDGET"
        )
    at = getattr(given, "at", "now")
    if at != "now" and not given.archive:
        options.error("--at needs --archive: etcd has no past (of its log, `zketcd replay` shows some)")
    try:
        past = _past(given, at) if given.command in PAST and getattr(given, "archive", None) else None
    except ValueError as error:
        return int(options.error(f"argument --at: {error}"))
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        if given.command == "top":
            return top.run(given, lambda: asyncio.run(_homes(given, access)))
        if given.command == "clickhouse":
            output = _clickhouse(given, access, options)
        else:
            output = asyncio.run(_run(given, access)) if past is None else past()
    except (CommandFailed, Refused, TreeNotServable, EtcdError, OSError, ValueError) as error:
        say(f"zketcd {command}: {for_operator(error, given.prefix)}")
        return 2 if isinstance(error, WrongUsage) else 1
    show(output.text(given.json))
    return 0


def _past(given: Any, at: str) -> Callable[[], Output]:
    """Runs a command on a moment of an archive. Raises ValueError for what is no moment."""
    from archive.files.catalog import ArchiveError
    from archive.files.moment import moment
    from archive.files.store import existing
    from archive.past.state import state_at

    wanted = moment(at, clock_ms())

    def run() -> Output:
        try:
            machine = state_at(existing(given.archive), wanted)
        except ArchiveError as error:
            raise CommandFailed(str(error)) from error
        return _show(machine, given.command, given)

    return run


def _clickhouse(given: Any, access: EtcdAccess, made: Any) -> Output:
    """What is left is found in etcd, and removed by a client."""

    async def find() -> list[clickhouse.Left]:
        etcd = client_of(given, access)
        try:
            machine = await _load(etcd, Keyspace(given.prefix), given, 0)
            return clickhouse.find(machine, given.path, given.replica, given.hours, clock_ms())
        finally:
            await etcd.close()

    found = asyncio.run(find())
    goes = clickhouse.chosen(found, given.replica) if given.yes else []
    if goes:
        client = connected(given, made)
        try:
            for left in goes:
                clickhouse.remove(client, left)
        finally:
            client.close()
    return clickhouse.show(found, goes)


async def _run(given: Any, access: EtcdAccess) -> Output:
    etcd = client_of(given, access)
    try:
        return await run(etcd, Keyspace(given.prefix), given)
    finally:
        await etcd.close()


async def _homes(given: Any, access: EtcdAccess) -> Mapping[str, Home]:
    """Where the living proxies run."""
    etcd, keys = client_of(given, access), Keyspace(given.prefix)
    try:
        await _answers(etcd, keys, given.timeout)
        return living_of(await look(etcd, keys), keys).homes
    finally:
        await etcd.close()


async def run(etcd: Etcd, keys: Keyspace, given: Any) -> Output:
    """One command. Raises CommandFailed, TreeNotServable, EtcdError."""
    await _answers(etcd, keys, given.timeout)
    match given.command:
        case "proxies":
            return await history.proxies(etcd, keys)
        case "log":
            return await history.tail(etcd, keys, given.tail)
        case "sizes":
            access = Access(endpoints(given), EtcdAccess(**values_of(EtcdAccess, given)))
            tls = await asyncio.to_thread(access.tls)
            return await history.sizes(etcd, keys, access.metrics_reader(tls))
        case "snapshot":
            return await changes.snapshot(etcd, keys)
        case "void":
            return await changes.void(etcd, keys, given.incarnation, given.number, force=given.force)
        case "unseal":
            return await _unseal(etcd, keys, given)
        case "raise-level":
            return await changes.level(etcd, keys, given.level)
        case "sessions":
            return await _sessions(etcd, keys, given)
        case "session":
            return await _session(etcd, keys, given)
        case "backup":
            return await _backup(etcd, keys, given)
        case "budget" if given.action != "list":
            return await budgets.change(etcd, keys, given.action, given.budgets)
        case "kill-session":
            return await changes.kill_session(etcd, keys, given.session)
        case "replay":
            return _show(await _load(etcd, keys, given, given.to), given.inner, given)
        case command:
            return _show(await _load(etcd, keys, given, 0), command, given)


async def _unseal(etcd: Etcd, keys: Keyspace, given: Any) -> Output:
    if given.force:
        return await unseal.unseal(etcd, keys, None)
    where = await unseal.sealed(etcd, keys)
    if given.moved_to is not None:
        access, _ = await asyncio.to_thread(tree_in, given.moved_to)
    else:
        access = Access(tuple(where.etcd.split(",")), EtcdAccess(**values_of(EtcdAccess, given)))
    there = access.client(await asyncio.to_thread(access.tls))
    try:
        return await unseal.unseal(etcd, keys, there)
    finally:
        await there.close()


async def _answers(etcd: Etcd, keys: Keyspace, timeout: float) -> None:
    """Wait until etcd answers a linearizable read. Raises CommandFailed, and EtcdRefused for a refusal."""
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        try:
            await etcd.range(Get(keys.tree, keys_only=True), max(_RETRY, deadline - began))
        except EtcdUnknown as error:
            if time.monotonic() + _RETRY > deadline:
                raise CommandFailed(f"etcd has not answered for {timeout:g} s: {error}") from error
            await asyncio.sleep(_RETRY)
        else:
            return


async def _sessions(etcd: Etcd, keys: Keyspace, given: Any) -> Output:
    """The sessions, with what the proxies say of their clients."""
    homes = living_of(await look(etcd, keys), keys).homes
    machine = await _load(etcd, keys, given, 0)
    clients, unknown = await asyncio.to_thread(sessions.clients_of, homes)
    for line in unknown:
        say(f"zketcd sessions: {line}")
    return sessions.show(machine, homes, clients, given)


async def _session(etcd: Etcd, keys: Keyspace, given: Any) -> Output:
    """The life of one session, from the archive, the log in etcd, and the state."""
    entries = await asyncio.to_thread(_archived, given.archive) if given.archive else []
    found, newest = await history.written(etcd, keys)
    homes = living_of(found, keys).homes
    machine = await _load(etcd, keys, given, 0)
    session = machine.sessions.get(given.session)
    holder = (
        {} if session is None else {name: home for name, home in homes.items() if name == session.incarnation}
    )
    clients, unknown = await asyncio.to_thread(sessions.clients_of, holder)
    for line in unknown:
        say(f"zketcd session: {line}")
    return life.show(given.session, machine, homes, clients, [*entries, *newest])


def _archived(url: str) -> list[Written]:
    """The entries of an archive, in their order. Raises CommandFailed; blocks."""
    from archive.files.catalog import ArchiveError, Catalog
    from archive.files.store import existing
    from archive.past.state import read

    try:
        store = existing(url)
        return [
            record
            for run in Catalog(store.list()).runs
            for each in run.segments
            for record in read(store, run, each).records
        ]
    except ArchiveError as error:
        raise CommandFailed(str(error)) from error


async def _backup(etcd: Etcd, keys: Keyspace, given: Any) -> Output:
    loaded = await _loaded(etcd, keys, given, 0)
    position = loaded.caught.revision
    now = datetime.now(UTC)
    return backup.backup(loaded.machine, given.prefix, position, given.folder, given.keep, now)


async def _load(etcd: Etcd, keys: Keyspace, given: Any, upto: int) -> Machine:
    return (await _loaded(etcd, keys, given, upto)).machine


async def _loaded(etcd: Etcd, keys: Keyspace, given: Any, upto: int) -> Loaded:
    # What is loaded stays until the end: to look through it again and again takes a third of the time.
    gc.disable()
    try:
        loaded = await load_as_of(
            etcd, keys, Wanted(upto=upto), timeout=given.timeout, even_sealed=True, even_copy=True
        )
    finally:
        gc.enable()
    if upto > loaded.caught.revision:
        raise CommandFailed(f"position {upto} is yet to come: etcd is at revision {loaded.caught.revision}")
    return loaded


def _show(machine: Machine, command: str, given: Any) -> Output:
    match command:
        case "ls":
            return reading.ls(machine, given.path, given.recursive)
        case "get":
            return reading.get(machine, given.path, given.hex)
        case "find-big":
            return reading.find_big(machine, given.path, given.limit)
        case "budget":
            return budgets.show(machine)
        case "stat":
            return reading.stat(machine, given.path)
        case _:
            return sessions.show(machine, {}, {}, given)
