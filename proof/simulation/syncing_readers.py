"""A client lets others know of what it wrote: they send a sync at once, and read. Their replies show it."""

from collections.abc import Iterable

from proof.history.records import GetData, Reply, Request, Sync, Write
from proof.simulation.clients import Client
from proof.simulation.mix import REGISTERS
from proof.simulation.world import Host, World

_OFTEN = 0.1  # of acknowledged writes begin a time in which others learn of them
_FOR = 0.2  # seconds, this time
_WITHIN = 0.005  # seconds until another client acts on it


class SyncingReaders:
    """Makes other clients of one world sync and read after some acknowledged writes."""

    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host
        self._until = 0.0
        self._random = world.random("telling")

    def replied(self, client: Client, request: Request, answer: Reply, others: Iterable[Client]) -> None:
        """Take an answer of `client`; perhaps the `others` sync and read soon."""
        if answer.error or not isinstance(request, Write):
            return
        now = self._world.now
        if self._random.random() < _OFTEN:
            self._until = now + _FOR
        if now < self._until:
            for other in others:
                if other is not client and other.listens:
                    self._host.call_later(self._random.random() * _WITHIN, self._ask, other)

    def _ask(self, client: Client) -> None:
        client.wish(Sync("/"))
        client.wish(GetData(f"{REGISTERS}/a", False))
        client.urge(within=0.0)
