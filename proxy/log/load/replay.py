"""Applies the entries that a catch-up has read to a state that is not served yet.

It works in slices, so that the event loop is not blocked. It compares each entry's digest with the state's
own.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from proxy.etcd.model import KeyValue
from proxy.log.follow.catch_up import Caught
from proxy.log.follow.log_order import Apply, LogOrder
from proxy.log.record import TreeNotServable, unknown_level
from proxy.log.slices import in_slices
from proxy.state.level import KNOWN, UnknownLevel
from proxy.state.machine import Machine
from proxy.state.outcome import Disagreement
from proxy.state.pause import NO_PAUSE, Pause
from proxy.support import probe
from proxy.support.environment import HOST, Clock
from schema.entry import Entry, Request
from schema.keys import Keyspace


class Place(NamedTuple):
    """The place of a request in the log."""

    position: int  # of its entry: etcd's revision
    incarnation: str
    number: int  # of the entry
    request: int  # in the entry, from 0


#: Executes a request on the machine, and may inspect its effects. Raises UnknownLevel.
Execute = Callable[[Machine, Entry, Request, Place], None]


class Replay:
    """One replay, which may stop at a position and continue."""

    def __init__(
        self,
        keys: Keyspace,
        machine: Machine,
        caught: Caught,
        progress: Callable[[int], None],
        execute: Execute | None = None,
        clock: Clock = HOST.clock,
    ) -> None:
        """`progress` gets the number of entries applied since its last call.

        `execute`: for callers that look at each request; by default the machine executes it.
        """
        self._keys = keys
        self._machine = machine
        self._caught = caught
        self._progress = progress
        self._execute = execute
        self._clock = clock
        self._order = LogOrder(keys)
        self._order.restart(machine.applied)
        self._left: set[tuple[str, int]] = set()  # what a limit of entries has left out
        self.bytes = 0
        self.requests = 0  # as `Apply.cost` counts them
        self.disagreements: list[Disagreement] = []

    async def run(self, upto: int, entries: int | None = None) -> None:
        """Apply what took effect up to the revision `upto`; with `entries`, at most so many entries in all.

        Raises TreeNotServable for an entry that this release cannot apply.
        """
        await in_slices(partial(self._run, upto, entries), self._clock)

    def _run(self, upto: int, entries: int | None, pause: Pause) -> None:
        caught = self._caught
        items = self._order.take_read(upto, caught.entries, caught.proxies, None, pause)
        self._machine.transaction.pause = pause
        try:
            for item in items:
                if not isinstance(item, Apply):
                    continue
                if entries is not None and self._machine.entries >= entries:
                    self._left.add((item.incarnation, item.number))
                else:
                    self._apply(item, pause)
        finally:
            self._machine.transaction.pause = NO_PAUSE

    def _apply(self, item: Apply, pause: Pause) -> None:
        machine = self._machine
        where = f"entry {item.number} of {item.incarnation}"
        entry = item.decode()
        disagreement = machine.begin(
            item.incarnation, item.number, entry.clock, entry.rules, entry.checkpoint, entry.digest
        )
        if disagreement is not None:
            self.disagreements.append(disagreement)
        for index, request in enumerate(entry.requests):
            try:
                if self._execute is None:
                    machine.execute(request)
                else:
                    place = Place(item.position, item.incarnation, item.number, index)
                    self._execute(machine, entry, request, place)
            except UnknownLevel as error:
                raise TreeNotServable(
                    f"{where}: {unknown_level(self._keys.prefix.decode(), error.level, KNOWN)}"
                ) from error
            pause()
        machine.end()
        probe.current.applied(machine)
        self.bytes += len(item.value)
        self.requests += item.cost(len(entry.requests), machine.transaction.parts)
        self._progress(1)

    def rest(self) -> list[KeyValue]:
        """The entries that were not applied: those that wait for a predecessor, or are beyond the limit."""
        return [kv for kv in self._caught.entries if self._is_left(kv)]

    def _is_left(self, entry: KeyValue) -> bool:
        _, incarnation, number = self._keys.parse(entry.key)
        return number > self._order.delivered(incarnation) or (incarnation, number) in self._left
