"""Distributed DDL: a queue of queries that every host executes once, in order. ClickHouse: DDLWorker.

A query is a persistent sequential node; below it each host says that it is at work (`active`, ephemeral) and
that it is done (`finished`, persistent). Who asked polls `finished`.
"""

import asyncio

from codec.constants import CreateMode, ErrorCode
from examples.replicated_merge_tree.host import Host
from examples.replicated_merge_tree.paths import QueryPaths
from examples.steps import Step
from lab.client.requests import children, create, delete, exists, get, maybe
from lab.client.session import ConnectionLost, MultiFailed, ZooKeeperError

_KEPT = 5
"""So many finished queries stay in the queue (ClickHouse: task_max_lifetime)."""
_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 1.0


async def work_on_queries(host: Host) -> None:
    """Execute new queries whenever the queue changes."""
    while True:
        session = await host.session()
        (names, _), watch = await session.watched(children(host.world.ddl))
        for name in sorted(names):
            host.world.queries.add(name)
            if name not in host.finished_queries:
                with host.world.steps.step("DDL on one host", await host.session()) as step:
                    await _process(host, step, name)
                host.finished_queries.add(name)
        await watch.wait()


async def _process(host: Host, step: Step, name: str) -> None:
    paths = QueryPaths(host.world.ddl, name)
    entry = await step.call(maybe(get(paths.root)))
    if entry is None or host.name not in _hosts_of(entry.data):
        step.counts = False
        return
    if await step.call(exists(f"{paths.finished}/{host.name}")) is not None:
        step.counts = False
        return
    await _make_status_nodes(step, paths)
    active = f"{paths.active}/{host.name}"
    while True:
        try:
            await step.call(create(active, b"", CreateMode.EPHEMERAL))
            break
        except ZooKeeperError as error:
            if error.code != ErrorCode.NODE_EXISTS:
                raise
        found, watch = await step.watched(exists(active))  # of this host's session before
        if found is not None:
            await watch.wait()
    if name not in host.executed:
        host.executed.add(name)
        host.world.ddl_judge.executed(host.name, name)
    await step.multi(delete(active), create(f"{paths.finished}/{host.name}", b"0\n"), host.fence)


async def _make_status_nodes(step: Step, paths: QueryPaths) -> None:
    try:
        await step.multi(create(paths.active), create(paths.finished))
    except MultiFailed as failed:
        if failed.code != ErrorCode.NODE_EXISTS:
            raise


def _entry(host: Host, identity: str) -> bytes:
    hosts = ", ".join(f"'{name}'" for name in sorted(host.world.names))
    return (
        f"version: 1\nquery: CREATE TABLE `{identity}`\nhosts: [{hosts}]\ninitiator: {host.name}\n".encode()
    )


def _hosts_of(entry: bytes) -> set[str]:
    line = entry.decode().split("\n")[2]
    return {name.strip("'") for name in line.partition("[")[2].rstrip("]").split(", ")}


async def run_query(host: Host) -> None:
    """Run a DDL query on all hosts, and wait until all have finished it."""
    world = host.world
    identity = world.identity()
    name: str | None = None
    with world.steps.step("DDL on all hosts", await host.session()) as step:
        while True:
            step.session = await host.session()
            try:
                name = name or await _enqueue(host, step, identity)
                await _wait_for_all(host, step, name)
                return
            except ConnectionLost:
                name = name or await _find(host, identity)


async def _enqueue(host: Host, step: Step, identity: str) -> str:
    entry = _entry(host, identity)
    path = await step.call(create(f"{host.world.ddl}/query-", entry, CreateMode.PERSISTENT_SEQUENTIAL))
    await _make_status_nodes(step, QueryPaths(host.world.ddl, path.rpartition("/")[2]))
    return path.rpartition("/")[2]


async def _wait_for_all(host: Host, step: Step, name: str) -> None:
    paths = QueryPaths(host.world.ddl, name)
    pause = _FIRST_POLL_S
    while True:
        found = await step.call(maybe(children(paths.finished)))
        if found is None and await step.call(exists(paths.root)) is None:
            return  # cleaned up, which only happens to what all have finished
        finished = found.names if found is not None else []
        if len(finished) >= len(host.world.names):
            host.world.ddl_judge.told(name, host.world.names, finished)
            return
        await asyncio.sleep(pause)
        pause = min(pause + _FIRST_POLL_S, _LONGEST_POLL_S)


async def _find(host: Host, identity: str) -> str | None:
    """The name of a query that was appended in an earlier session, if it was."""
    while True:
        session = await host.session()
        try:
            for name in (await session.call(children(host.world.ddl))).names:
                found = await session.call(maybe(get(f"{host.world.ddl}/{name}")))
                if found is not None and f"`{identity}`".encode() in found.data:
                    return name
        except ConnectionLost:
            continue
        return None


async def clean_queue(host: Host) -> None:
    """Delete old queries that all hosts have finished, under a lock for each."""
    while True:
        await asyncio.sleep(host.world.settings.cleanup_s)
        with host.world.steps.step("clean-up of DDL", await host.session()) as step:
            names = sorted((await step.call(children(host.world.ddl))).names)
            for name in names[:-_KEPT]:
                await _clean(host, step, QueryPaths(host.world.ddl, name))
            step.counts = len(names) > _KEPT


async def _clean(host: Host, step: Step, paths: QueryPaths) -> None:
    active = await step.call(maybe(children(paths.active)))
    finished = await step.call(maybe(children(paths.finished)))
    if active is None or active.names or finished is None or len(finished.names) < len(host.world.names):
        return
    try:
        await step.call(create(paths.lock, host.name.encode(), CreateMode.EPHEMERAL))
        await step.multi(
            *(delete(f"{paths.finished}/{name}") for name in finished.names),
            *(delete(path) for path in (paths.finished, paths.active, paths.lock, paths.root)),
        )
    except ZooKeeperError as error:
        if error.code not in (ErrorCode.NO_NODE, ErrorCode.NODE_EXISTS):
            raise  # another host was quicker
