"""liboffkv's operations over a ZooKeeper session. Versions count from 1; 0 means that there is no key."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from codec.client import Request, check, children, create, delete, exists, get, maybe, set_data
from codec.constants import CreateMode, ErrorCode
from examples.tree import delete_tree
from lab.client.session import MultiFailed, Session, Watch, ZooKeeperError, connect

T = TypeVar("T")

#: What `set` returns if another client has erased the key meanwhile: it has no version, and that is no error.
NO_VERSION = 1 << 62


class NoEntry(Exception):
    """The key, or the one above it, is not there."""


class EntryExists(Exception):
    """The key is there already."""


class NoChildrenForEphemeral(Exception):
    """A leased key cannot have others below it."""


class ServiceError(Exception):
    """The server refuses a transaction as a whole: etcd does, if operations touch one key."""


class TxnFailed(Exception):
    """A transaction was rolled back; `index` counts its checks, then its operations."""

    def __init__(self, index: int) -> None:
        super().__init__(f"operation {index} failed")
        self.index = index


class Check(NamedTuple):
    """In a transaction: the key has this version, or with 0 is there at all."""

    key: str
    version: int = 0


class Create(NamedTuple):
    """In a transaction: make a key."""

    key: str
    value: bytes
    lease: bool = False


class Set(NamedTuple):
    """In a transaction: give a key that is there another value."""

    key: str
    value: bytes


class Erase(NamedTuple):
    """In a transaction: take a key away with all below it."""

    key: str


class Found(NamedTuple):
    """The answer to `get`."""

    version: int
    value: bytes
    watch: Watch


_ERRORS = {
    ErrorCode.NO_NODE: NoEntry,
    ErrorCode.NODE_EXISTS: EntryExists,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemeral,
}


class Store:
    """Keys below a prefix."""

    def __init__(self, session: Session, prefix: str) -> None:
        self.session = session
        self._prefix = prefix

    async def close(self) -> None:
        """End the session."""
        await self.session.close()

    async def reopen(self) -> None:
        """End the session and begin another, whose requests do not count."""
        self.session.meter.stop()
        await self.session.close()
        self.session = await connect([self.session.address])

    async def clear(self, root: str) -> None:
        """Delete a node and all below it."""
        await delete_tree(self.session, root)

    async def make_prefix(self) -> None:
        """Create the prefix and all above it, as `connect` of liboffkv does."""
        path = ""
        for name in self._prefix.split("/")[1:]:
            path += f"/{name}"
            try:
                await self.session.call(create(path))
            except ZooKeeperError as error:
                if error.code != ErrorCode.NODE_EXISTS:
                    raise

    async def create(self, key: str, value: bytes, *, lease: bool = False) -> int:
        """Make a key; its version. Raises EntryExists, NoEntry, NoChildrenForEphemeral."""
        await self._call(create(self._path(key), value, _mode(lease)))
        return 1

    async def exists(self, key: str, *, watch: bool = True) -> tuple[int, Watch]:
        """The version of a key, and what fires when it comes, changes or goes."""
        stat, watching = await self._read(exists(self._path(key)), watch)
        return (stat.version + 1 if stat is not None else 0), watching

    async def get(self, key: str, *, watch: bool = True) -> Found:
        """Version and value of a key, and what fires when it changes or goes. Raises NoEntry."""
        found, watching = await self._read(maybe(get(self._path(key))), watch)
        if found is None:
            raise NoEntry(key)
        return Found(found.stat.version + 1, found.data, watching)

    async def get_children(self, key: str, *, watch: bool = True) -> tuple[list[str], Watch]:
        """The keys directly below a key, and what fires when one comes or goes. Raises NoEntry."""
        found, watching = await self._read(maybe(children(self._path(key))), watch)
        if found is None:
            raise NoEntry(key)
        return sorted(f"{key}/{name}" for name in found.names), watching

    async def set(self, key: str, value: bytes) -> int:
        """Give a key a value, make it if it is not there; its new version. Raises NoEntry."""
        try:
            return await self.create(key, value)
        except EntryExists:
            stat = await self._call(maybe(set_data(self._path(key), value)))
            return int(stat.version) + 1 if stat is not None else NO_VERSION

    async def cas(self, key: str, value: bytes, version: int = 0) -> int:
        """Give a key of this version a value, with 0 make it; its new version, 0 if it has another one.

        Raises NoEntry.
        """
        if version == 0:
            try:
                return await self.create(key, value)
            except EntryExists:
                return 0
        try:
            stat = await self._call(set_data(self._path(key), value, version - 1))
            return int(stat.version) + 1
        except ZooKeeperError as error:
            if error.code != ErrorCode.BAD_VERSION:
                raise
            return 0

    async def erase(self, key: str, version: int = 0) -> None:
        """Take a key away with all below it, all at once; nothing happens if it has another version.

        Raises NoEntry.
        """
        path = self._path(key)
        while True:
            parts = [check(path), check(path, version - 1), *await self._erasure(path)]
            try:
                await self.session.multi(*parts)
                return
            except MultiFailed as failed:
                if failed.failed == 0:
                    raise NoEntry(key) from failed
                if failed.failed == 1:
                    return
                # What is below it has changed since it was listed: again.

    async def commit(self, checks: Sequence[Check], operations: Sequence[Create | Set | Erase]) -> list[int]:
        """All or nothing; the new versions of what is created and set. Raises TxnFailed."""
        tried: list[Request[Any]] = []
        while True:
            parts: list[Request[Any]] = []
            last: list[int] = []  # of each check and operation, the number of its last part
            for each in checks:
                parts.append(check(self._path(each.key), each.version - 1))
                last.append(len(parts) - 1)
            for operation in operations:
                parts += await self._parts(operation)
                last.append(len(parts) - 1)
            try:
                return [
                    1 if part.opcode == create("/").opcode else result.version + 1
                    for part, result in zip(parts, await self.session.multi(*parts), strict=True)
                    if result is not None
                ]
            except MultiFailed as failed:
                index = next(number for number, end in enumerate(last) if failed.failed <= end)
                # Inside an erasure only its first part, the check, says that the key is not there. The others
                # fail if what is below the key has changed since it was listed; if it has not, this very
                # transaction puts something there.
                first = last[index - 1] + 1 if index else 0
                if failed.failed == first or _same(parts, tried):
                    raise TxnFailed(index) from failed
                tried = parts

    async def _parts(self, operation: Create | Set | Erase) -> list[Request[Any]]:
        path = self._path(operation.key)
        if isinstance(operation, Create):
            return [create(path, operation.value, _mode(operation.lease))]
        if isinstance(operation, Set):
            return [set_data(path, operation.value)]
        return [check(path), *await self._erasure(path)]

    async def _erasure(self, path: str) -> list[Request[Any]]:
        """Deletions of a node and all below it, as of now, the deepest first."""
        listing = await self.session.call(maybe(children(path)))
        if listing is None:
            return []
        below = [await self._erasure(f"{path}/{name}") for name in sorted(listing.names)]
        return [*(part for parts in below for part in parts), delete(path)]

    async def _read(self, request: Request[T], watch: bool) -> tuple[T, Watch]:
        """The answer, and the watch that it has set: if none is wanted, one that never fires."""
        if watch:
            return await self.session.watched(request)
        return await self.session.call(request), Watch()

    async def _call(self, request: Request[Any]) -> Any:
        try:
            return await self.session.call(request)
        except ZooKeeperError as error:
            known = _ERRORS.get(ErrorCode(error.code))
            if known is None:
                raise
            raise known(request.path) from error

    def _path(self, key: str) -> str:
        return self._prefix + key


def _mode(lease: bool) -> CreateMode:
    return CreateMode.EPHEMERAL if lease else CreateMode.PERSISTENT


def _same(parts: Sequence[Request[Any]], others: Sequence[Request[Any]]) -> bool:
    return [(part.opcode, part.body) for part in parts] == [(part.opcode, part.body) for part in others]
