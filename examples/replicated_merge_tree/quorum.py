"""Inserts that wait until several replicas have the part: the node quorum/status, and who changes it.

It names the part and the replicas that have it, and it is there as long as one insert waits. ClickHouse:
ReplicatedMergeTreeQuorumEntry, StorageReplicatedMergeTree::updateQuorum.
"""

from typing import NamedTuple, Self

from codec.constants import ErrorCode
from examples.replicated_merge_tree.parts import Part
from examples.replicated_merge_tree.paths import TablePaths
from examples.replicated_merge_tree.replica import Replica
from examples.steps import Step
from lab.client.requests import Data, Request, create, delete, get, maybe, set_data
from lab.client.session import MultiFailed, Watch


class Status(NamedTuple):
    """What quorum/status says."""

    part: Part
    required: int
    replicas: tuple[str, ...]

    def encode(self) -> bytes:
        """The node's data."""
        return "\n".join([self.part.text, str(self.required), *self.replicas]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ValueError for anything but what `encode` writes."""
        part, required, *replicas = data.decode().split("\n")
        return cls(Part.parse(part), int(required), tuple(replicas))


class Waiting(NamedTuple):
    """An insert waits for its quorum."""

    status: Status
    version: int


async def waiting(step: Step, table: TablePaths) -> Waiting | None:
    """The insert that waits for its quorum."""
    return _read(await step.call(maybe(get(table.quorum_status))))


async def watched(step: Step, table: TablePaths) -> tuple[Waiting | None, Watch]:
    """The same, and a watch that fires when it changes; if nothing waits it has fired."""
    found, watch = await step.watched(maybe(get(table.quorum_status)))
    return _read(found), watch


def _read(found: Data | None) -> Waiting | None:
    return Waiting(Status.decode(found.data), found.stat.version) if found is not None else None


async def count(replica: Replica, step: Step, part: Part) -> None:
    """Add this replica, which has the part; the one that completes the quorum deletes the status."""
    while True:
        found = await waiting(step, replica.table)
        if found is None or found.status.part != part or replica.name in found.status.replicas:
            return
        status = found.status._replace(replicas=(*found.status.replicas, replica.name))
        try:
            if len(status.replicas) >= status.required:
                await step.multi(
                    delete(replica.table.quorum_status, found.version),
                    set_data(replica.table.quorum_last, part.text.encode()),
                )
            else:
                await step.multi(set_data(replica.table.quorum_status, status.encode(), found.version))
        except MultiFailed as failed:
            if failed.code not in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
                raise
        else:
            return


async def count_what_is_here(replica: Replica, step: Step) -> None:
    """In a new session: the last one may have ended before this (ClickHouse: updateQuorumIfWeHavePart)."""
    found = await waiting(step, replica.table)
    if found is not None and replica.disk.active.covering(found.status.part):
        await count(replica, step, found.status.part)


def failure(table: TablePaths, found: Waiting) -> list[Request[object]]:
    """Requests of a multi: no replica can have the part any more."""
    return [
        delete(table.quorum_status, found.version),
        create(f"{table.failed_parts}/{found.status.part.text}"),
    ]
