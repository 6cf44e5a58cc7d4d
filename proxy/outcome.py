"""What became of a Txn: what etcd's answer tells, or the Txn's own events, or, if both are missing, a fence.

Opens the lanes and keeps their markers' revisions, on which the fences rest. Part of the committer's shell;
it answers no request and sends no write again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection

from codec.constants import ErrorCode
from proxy import plan
from proxy.batch import Component
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    KeyValue,
    Put,
    RangeResult,
    Txn,
    TxnResult,
)
from proxy.flights import Flight, Lane, Outcome
from proxy.mirror import Mirror
from schema.keys import Keyspace

log = logging.getLogger(__name__)

TXN_TIMEOUT = 5.0  # seconds until the outcome of a Txn counts as unknown
_RETRY = 0.05  # seconds between tries to learn what became of a Txn


class NoSpace(Exception):
    """A Txn was not applied since etcd's quota is used up."""


class Untold(Exception):
    """Nothing is left that could tell what became of a Txn."""


class Outcomes:
    """Tells what became of the Txns of one proxy."""

    def __init__(self, mirror: Mirror, etcd: Etcd, keys: Keyspace, new_lane: Callable[[], Lane]) -> None:
        """`new_lane` makes what takes the place of a lane whose marker somebody has swept."""
        self._mirror = mirror
        self._etcd = etcd
        self._keys = keys
        self._new_lane = new_lane

    def history(self) -> object:
        """What changes when etcd has been restored from a backup: the same revisions then mean others."""
        record = self._mirror.record
        return None if record is None else record.offsets

    def of_events(self, flight: Flight, revision: int, beaten: Collection[str]) -> Outcome | None:
        """What the mirror, which has just applied the Txn's `revision`, tells; None: that does not suffice.

        `beaten`: the numbers of its components that say themselves that they have lost.
        """
        applied = [
            self._shows(component, revision, str(number) in beaten)
            for number, component in enumerate(flight.batch.components)
        ]
        if None in applied:
            return None
        flight.lane.mod = revision
        return revision, [bool(won) for won in applied]

    def _shows(self, component: Component, revision: int, beaten: bool) -> bool | None:
        """Whether the mirror, at the Txn's `revision`, shows the component applied; None: no telling."""
        nodes = self._mirror.tree.nodes
        for entry in component.entries:
            if entry.exists and (entry.node_changed or entry.counter_changed):
                node = nodes.get(entry.path)
                return node is not None and revision == (node.mod if entry.node_changed else node.counter_mod)
        for session_id, value in component.session_changes:
            record = self._mirror.sessions.get(session_id)
            if value is None:
                return record is None
            return record is not None and record.mod == revision
        return not beaten if component.changes_nothing else None

    def of_answer(self, flight: Flight, answer: TxnResult) -> Outcome | None:
        """(revision, applied by component) of a Txn's answer; None if the lane was lost."""
        if not answer.succeeded:
            # The marker is not as we left it: somebody swept it, since this proxy seemed dead.
            log.warning("marker %r was swept; opening another", flight.lane.key)
            flight.lane = self._new_lane()
            return None
        flight.lane.mod = answer.revision
        results = answer.responses[1:]
        return answer.revision, [isinstance(result, TxnResult) and result.succeeded for result in results]

    async def open(self, lane: Lane) -> None:
        """Put a lane's marker for the first time; a Txn never has to expect an absent one.

        Raises EtcdNoSpace, after which the marker may be there all the same.
        """
        level = logging.WARNING
        while lane.mod == 0:
            marker = plan.unmetered(Put(lane.key, lane.next_value("open")))
            txn = Txn((Compare(lane.key, 0),), (marker,), (Get(lane.key),))
            try:
                answer = await self._etcd.txn(txn, TXN_TIMEOUT)
            except EtcdNoSpace:
                raise
            except (EtcdUnknown, EtcdRefused) as error:
                log.log(level, "cannot open a marker: %s", error)
                level = logging.DEBUG  # told once is enough for an outage
                await asyncio.sleep(_RETRY)
                continue
            lane.mod = answer.revision if answer.succeeded else _only(answer).mod_revision

    async def resolve(self, flight: Flight, no_space: bool) -> Outcome | None:
        """Learn what became of a Txn whose answer was lost, first making sure that it cannot happen later.

        A fence on the lane's marker either wins, and the lost Txn's compare can never hold again, or it loses
        to the lost Txn, whose marker then tells the revision (DESIGN 4.7). None if it was not applied, or if
        its own events have come meanwhile. Raises Untold, and NoSpace if it was not applied and etcd's answer
        was that (`no_space`).
        """
        lane = flight.lane
        while not flight.over():
            fence = lane.next_value("fence")
            try:
                answer = await self._etcd.txn(
                    Txn(
                        (Compare(lane.key, lane.mod),),
                        (plan.unmetered(Put(lane.key, fence)),),
                        (Get(lane.key),),
                    ),
                    TXN_TIMEOUT,
                )
            except (EtcdUnknown, EtcdRefused) as error:
                log.debug("fence: %s", error)
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.5))
                continue
            if flight.over():
                break
            if answer.succeeded:
                lane.mod = answer.revision
                if no_space:
                    raise NoSpace
                return None
            found = answer.responses[0]
            if not isinstance(found, RangeResult) or not found.kvs:
                # Swept, since this proxy seemed dead: perhaps with the lost Txn's own marker.
                log.error("marker %r was swept; what became of its Txn cannot be told", lane.key)
                flight.lane = self._new_lane()
                raise Untold
            marker = found.kvs[0]
            lane.mod = marker.mod_revision
            if marker.value != flight.value:
                return None  # an earlier fence, whose own answer was lost, has won
            return await self._applied_components(flight, marker.mod_revision)
        return None  # the Txn's own events have come meanwhile

    async def _applied_components(self, flight: Flight, revision: int) -> Outcome | None:
        """Which components of a Txn that was applied at `revision` had their guards hold."""
        return revision, [
            await self._was_applied(component, revision) for component in flight.batch.components
        ]

    async def _was_applied(self, component: Component, revision: int) -> bool:
        write = plan.witness(component, self._keys)
        if write is None:
            return False  # it only answers; asking again is as good
        while True:
            try:
                found = await self._etcd.range(Get(write.key, revision=revision), TXN_TIMEOUT)
            except EtcdUnknown:
                await asyncio.sleep(_RETRY)
                continue
            except EtcdRefused as refused:
                log.error("cannot tell what became of a write at revision %d: %s", revision, refused)
                for request in component.requests:
                    request.refusal = ErrorCode.CONNECTION_LOSS
                return True
            if isinstance(write, Delete):
                return not found.kvs
            return bool(found.kvs) and found.kvs[0].mod_revision == revision


def _only(answer: TxnResult) -> KeyValue:
    found = answer.responses[0]
    assert isinstance(found, RangeResult)
    return found.kvs[0]
