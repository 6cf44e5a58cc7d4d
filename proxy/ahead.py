"""Evaluating ahead: what waits for a Txn in flight, as if that had been applied (docs/decisions/0014).

Here a flight's next batch is evaluated, settled when the flight is over, or taken back. Who sends it is the
committer. Pure.
"""

import logging
from collections.abc import Callable, Mapping

from proxy.batch import MAX_REQUESTS, Batch, Later
from proxy.draft import Held
from proxy.flights import QUANTUM, Flight
from proxy.mirror import Mirror

log = logging.getLogger(__name__)


class Foresight:
    """What is evaluated ahead of the Txns of one proxy."""

    def __init__(
        self,
        mirror: Mirror,
        locks: Mapping[str, object],
        new_batch: Callable[[Flight], Batch],
        put_back: Callable[[Batch], None],
    ) -> None:
        """`locks`: who holds which path; `new_batch` makes one to be evaluated ahead of a flight.

        `put_back` takes the requests of a batch back to their queues.
        """
        self._mirror = mirror
        self._locks = locks
        self._new_batch = new_batch
        self._put_back = put_back

    def look(self, flight: Flight) -> None:
        """Evaluate what waits for a Txn in flight, so that it can go out as soon as that has been applied.

        Otherwise the proxy would idle while etcd works, and etcd while the proxy does, wherever all writes go
        to one node or come from one session.
        """
        batch = flight.next
        for queue in (*flight.waiting, *flight.queues):
            requests = queue.requests
            if not requests or queue in flight.passed:
                continue
            if batch is None:
                batch = self._new_batch(flight)
            for _ in range(min(len(requests), QUANTUM)):
                if len(batch.requests) >= MAX_REQUESTS:
                    return
                request = requests[0]
                try:
                    fits = request.of_session and not request.solo and batch.add(request)
                except (Later, Held):
                    fits = False
                except Exception:
                    # It is told in its turn.
                    log.debug("a request could not be evaluated ahead", exc_info=True)
                    fits = False
                if not fits:
                    flight.passed.add(queue)
                    break
                if batch.wide:
                    # It goes out alone; nothing else is in the batch, or it would not have been taken.
                    flight.passed.add(queue)
                    batch.dissolve()
                    return
                flight.next = batch
                flight.claimed[queue] = None
                queue.held = 0
                requests.popleft()

    def settle(self, flight: Flight, revision: int) -> Batch | None:
        """What was evaluated ahead of a Txn of which all was applied at `revision`, to be sent now.

        It is the caller's from now on. None if there is nothing, or if a path that it looked at is locked.
        """
        batch = flight.next
        if batch is None or not self._locks.keys().isdisjoint(batch.draft.entries):
            return None
        batch.draft.settle(revision, self._mirror.zxid_of(revision))
        flight.next = None
        return batch

    def forget(self, flight: Flight) -> None:
        """Take back what was evaluated ahead of a Txn: things have not come as was supposed."""
        batch, flight.next = flight.next, None
        if batch is not None:
            self._put_back(batch)
            batch.dissolve()
        flight.claimed = {}
