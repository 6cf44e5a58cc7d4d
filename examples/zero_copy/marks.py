"""How replicas mark shared data, and delete data without marks.

The node `shared/PART/ID` stands for the data. Its deleter may delete the data. ZooKeeper lets only one
replica do it, and only while there is no mark. So a mark keeps the data, and no mark can be made where the
node is gone. (The design note lists the marks and deletes the data if there is none: a replica that marks
them between these two loses its data. ClickHouse makes missing parents again, with the same end.)

`deleting/ID` is created in the same multi and says who deletes: after a lost connection the replica knows
whether it was itself. A fetch marks by an ephemeral node first, which vanishes with a replica that dies. The
mark that lasts replaces it in one multi.
"""

from typing import Any

from codec.client import Request, children, create, delete, exists, get, maybe
from codec.constants import CreateMode, ErrorCode
from examples.steps import Step
from examples.zero_copy.bucket import Bucket
from examples.zero_copy.paths import ZeroCopyPaths
from lab.client.session import MultiFailed, ZooKeeperError


class Marks:
    """One replica's view of the shared data."""

    def __init__(self, paths: ZeroCopyPaths, bucket: Bucket, replica: str) -> None:
        self._paths = paths
        self._bucket = bucket
        self._replica = replica
        self._deleted: set[str] = set()

    def creation(self, part: str, identity: str, *, first: bool) -> list[Request[Any]]:
        """What a multi needs to mark new data. `first`: the part has no other data.

        The part's node is made in the same multi: a node that is made before would stay if the multi failed.
        """
        return [
            *([create(self._paths.part(part))] if first else []),
            create(self._paths.data(part, identity)),
            create(self._paths.mark(part, identity, self._replica)),
        ]

    async def borrow(self, step: Step, part: str, identity: str) -> bool:
        """Mark another replica's data for the length of a fetch; False if the data are gone."""
        mark = self._paths.mark(part, identity, self._replica)
        while True:
            try:
                await step.call(create(mark, b"", CreateMode.EPHEMERAL))
                return True
            except ZooKeeperError as error:
                if error.code == ErrorCode.NO_NODE:
                    return False
                if error.code != ErrorCode.NODE_EXISTS:
                    raise
            found, watch = await step.watched(exists(mark))
            if found is not None and found.ephemeral_owner == 0:
                return True  # it lasts already
            if found is not None:
                await watch.wait()  # of this replica's session before

    async def keep(self, step: Step, part: str, identity: str, fence: Request[None]) -> None:
        """Make a borrowed mark one that lasts. Raises MultiFailed if it is gone."""
        mark = self._paths.mark(part, identity, self._replica)
        await step.multi(delete(mark), create(mark), fence)

    async def is_marked(self, step: Step, part: str, identity: str) -> bool:
        """Whether this replica has a mark that lasts."""
        stat = await step.call(exists(self._paths.mark(part, identity, self._replica)))
        return stat is not None and stat.ephemeral_owner == 0

    async def unmark(self, step: Step, part: str, identity: str, fence: Request[None]) -> None:
        """Take the mark away, and delete the data if no other is left. Safe to repeat."""
        self._bucket.unmarking(identity, self._replica)
        try:
            await step.multi(delete(self._paths.mark(part, identity, self._replica)), fence)
        except MultiFailed as failed:
            if failed.failed != 0 or failed.code != ErrorCode.NO_NODE:
                raise  # else it was taken away in an earlier session
        data = self._paths.data(part, identity)
        deletion = self._paths.deletion(identity)
        others = await step.call(maybe(children(data)))
        if others is not None:
            if others.names:
                return
            try:
                await step.multi(delete(data), create(deletion, self._replica.encode()), fence)
            except MultiFailed as failed:
                if failed.failed == 0 and failed.code in (ErrorCode.NOT_EMPTY, ErrorCode.NO_NODE):
                    return  # another replica marked it, or deletes it
                raise
        else:
            found = await step.call(maybe(get(deletion)))
            if found is None or found.data.decode() != self._replica:
                return
        if identity not in self._deleted:
            self._bucket.delete(identity, self._replica)
            self._deleted.add(identity)
        # The node that says who deletes goes last: until then a lost connection leads here again.
        try:
            await step.call(maybe(delete(self._paths.part(part))))
        except ZooKeeperError as error:
            if error.code != ErrorCode.NOT_EMPTY:
                raise  # else the part has other data too
        await step.call(maybe(delete(deletion)))
