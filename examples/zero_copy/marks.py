"""How replicas mark shared data, and delete data without marks.

The node `shared/PART/ID` stands for the data. Its deleter may delete the data. ZooKeeper lets only one
replica do it, and only while there is no mark. So a mark keeps the data, and no mark can be made where the
node is gone. (The design note lists the marks and deletes the data if there is none: a replica that marks
them between these two loses its data. ClickHouse makes missing parents again, with the same end.)

`deleting/ID` is created in the same multi and says who deletes: after a lost connection the replica knows
whether it was itself. The level between ID and the mark is the directory on the replica's disk: PART, or a
temporary one that only one fetch has. When the fetch is complete, one multi replaces its mark by that of the
part. What a fetch that died has left can be removed at any time: it is not the part's mark.
"""

from typing import Any

from codec.client import Request, children, create, delete, exists, get, maybe
from codec.constants import ErrorCode
from examples.zero_copy.paths import ZeroCopyPaths
from examples.zero_copy.steps import Step
from examples.zero_copy.storage import Storage
from lab.client.session import MultiFailed, ZooKeeperError


class Marks:
    """One replica's view of the shared data."""

    def __init__(self, paths: ZeroCopyPaths, storage: Storage, replica: str) -> None:
        self._paths = paths
        self._storage = storage
        self._replica = replica
        self._deleted: set[str] = set()

    def creation(self, part: str, identity: str, *, first: bool) -> list[Request[Any]]:
        """What a multi needs to mark new data. `first`: the part has no other data.

        The part's node is made in the same multi: a node that is made before would stay if the multi failed.
        """
        return [
            *([create(self._paths.part(part))] if first else []),
            create(self._paths.data(part, identity)),
            create(self._paths.directory(part, identity)),
            create(self._paths.mark(part, identity, self._replica)),
        ]

    async def hold(self, step: Step, part: str, identity: str, directory: str, fence: Request[None]) -> bool:
        """Mark another replica's data for a fetch; False if the data are gone."""
        try:
            await step.multi(
                create(self._paths.directory(part, identity, directory)),
                create(self._paths.mark(part, identity, self._replica, directory)),
                fence,
            )
        except MultiFailed as failed:
            if failed.failed != 0 or failed.code != ErrorCode.NO_NODE:
                raise
            return False
        self._storage.marked(identity, self._replica, directory)
        return True

    async def rename(
        self, step: Step, part: str, identity: str, directory: str, fence: Request[None]
    ) -> None:
        """Replace the mark of a fetch by that of the part. Raises MultiFailed if it is gone."""
        await step.multi(
            *self._removal(part, identity, directory),
            create(self._paths.mark(part, identity, self._replica)),
            fence,
        )

    def _removal(self, part: str, identity: str, directory: str) -> list[Request[Any]]:
        """A temporary directory goes with its mark; the part's own stays for the other replicas."""
        mark = delete(self._paths.mark(part, identity, self._replica, directory))
        return [mark, delete(self._paths.directory(part, identity, directory))] if directory else [mark]

    async def is_marked(self, step: Step, part: str, identity: str) -> bool:
        """Whether this replica has marked the data for the part."""
        return await step.call(exists(self._paths.mark(part, identity, self._replica))) is not None

    async def unmark(
        self, step: Step, part: str, identity: str, fence: Request[None], directory: str = ""
    ) -> None:
        """Take a mark away, and delete the data if no other is left. Safe to repeat."""
        self._storage.unmarking(identity, self._replica, directory)
        try:
            await step.multi(*self._removal(part, identity, directory), fence)
        except MultiFailed as failed:
            if failed.failed != 0 or failed.code != ErrorCode.NO_NODE:
                raise  # else it was taken away in an earlier session
        data = self._paths.data(part, identity)
        deletion = self._paths.deletion(identity)
        own = self._paths.directory(part, identity)
        others = await step.call(maybe(children(own)))
        if others is not None:
            if others.names:
                return
            try:
                await step.multi(delete(own), delete(data), create(deletion, self._replica.encode()), fence)
            except MultiFailed as failed:
                if failed.failed in (0, 1) and failed.code in (ErrorCode.NOT_EMPTY, ErrorCode.NO_NODE):
                    return  # another replica has marked it, fetches it, or deletes it
                raise
        else:
            found = await step.call(maybe(get(deletion)))
            if found is None or found.data.decode() != self._replica:
                return
        if identity not in self._deleted:
            self._storage.delete(identity, self._replica)
            self._deleted.add(identity)
        # The node that says who deletes goes last: until then a lost connection leads here again.
        try:
            await step.call(maybe(delete(self._paths.part(part))))
        except ZooKeeperError as error:
            if error.code != ErrorCode.NOT_EMPTY:
                raise  # else the part has other data too
        await step.call(maybe(delete(deletion)))
