"""Makes the table before its hosts start, and looks at it in the end, in a session of its own."""

import asyncio
import time

from codec.client import children, create, multi
from examples.zero_copy.host import World, log_entries
from examples.zero_copy.storage import Violation
from lab.client.session import ConnectionLost, Session

_PROGRESS = ("unmark", "move", "cleaning")


class Observer:
    """Makes the table, waits until its hosts have done everything, and counts their marks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._session: Session | None = None

    async def make_nodes(self) -> None:
        """The table and its hosts. Raises ConnectionLost."""
        paths, session = self._world.paths, await self._connected()
        nodes = [*paths.every(), *(paths.host(name) for name in self._world.hosts)]
        await session.call(multi([create(path) for path in nodes]))

    async def wait_for_rest(self) -> None:
        """Wait until the hosts have done everything. Raises Violation if for long nothing is done."""
        settings = self._world.settings
        timeout_s = settings.connecting.timeout_s
        last: object = None
        since = time.monotonic()
        while True:
            try:
                left = await self._unfinished()
            except ConnectionLost as error:
                left = str(error)
            if not left:
                return
            done, now = self._done(), time.monotonic()
            if done != last:
                last, since = done, now
            elif now - since > timeout_s:
                raise Violation("rest", f"for {timeout_s:g} s nothing was done, and {left}")
            await asyncio.sleep(settings.pause_s)

    async def judge(self) -> None:
        """Compare what is in ZooKeeper with what the hosts know. Raises Violation."""
        while True:
            try:
                return await self._look()
            except ConnectionLost:
                await asyncio.sleep(self._world.settings.pause_s)

    async def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            await self._session.close()

    async def _connected(self) -> Session:
        """The session, a new one if it was lost. Raises ConnectionLost."""
        if self._session is None or self._session.lost.is_set():
            addresses = self._world.surroundings.addresses
            self._session = await self._world.settings.connecting.session(addresses)
        return self._session

    def _done(self) -> object:
        """Entries of the log that each host has done, and other steps."""
        world = self._world
        copied = [host.pointer for host in world.hosts.values()]
        return copied, [world.steps.done[kind] for kind in _PROGRESS]

    async def _unfinished(self) -> str:
        """What the hosts still have to do, empty if nothing. Raises ConnectionLost."""
        session = await self._connected()
        end = len((await session.call(children(self._world.paths.log))).names)
        for host in self._world.hosts.values():
            if host.pointer < end:
                return f"{host.name} has done {host.pointer} of {end} entries of the log"
            if host.outdated or host.leftovers:
                return f"{host.name} has not unmarked {sorted([*host.outdated, *host.leftovers])}"
            if host.local:
                return f"{host.name} has not moved {sorted(host.local)}"
        for above in (self._world.paths.merged, self._world.paths.moved):  # of sessions that were lost
            if held := (await session.call(children(above))).names:
                return f"locks of {sorted(held)} are held"
        return ""

    async def _look(self) -> None:
        world, paths, session = self._world, self._world.paths, await self._connected()
        table: set[str] = set()
        added: list[str] = []
        for change in await log_entries(session, paths.log):
            table.difference_update(change.removed)
            if change.added:
                table.add(change.added)
                added.append(change.added)
        for part in world.told:
            if added.count(part) != 1:
                raise Violation(
                    "parts", f"{part} was reported as inserted; it is in the log {added.count(part)} times"
                )
        marks: dict[str, list[str]] = {}
        left = [f"{paths.deleting}/{name}" for name in (await session.call(children(paths.deleting))).names]
        for part in (await session.call(children(paths.shared))).names:
            identities = (await session.call(children(paths.part(part)))).names
            if not identities:
                left.append(paths.part(part))
            for identity in identities:
                marks[identity] = (await session.call(children(paths.directory(part, identity)))).names
                directories = (await session.call(children(paths.data(part, identity)))).names
                left += [paths.directory(part, identity, name) for name in directories if name != part]
        world.storage.at_end(
            {host.name: host.parts for host in world.hosts.values()},
            marks,
            left,
            {part: world.rows[part] for part in table},
        )
