"""A proxy's part in combined appends: it is the combiner, hands its entries to it, or appends them itself."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from proxy.etcd.model import TxnResult
from proxy.log.combine.client import CombinerClient
from proxy.log.combine.combiner import Offer
from proxy.log.combine.messages import MOST_BYTES, Hello, Mode
from proxy.log.combine.server import CombinerServer
from proxy.log.context import Context
from proxy.log.living import LivingProxies
from proxy.log.status import Combined


class Appendable(Protocol):
    """An entry to be appended."""

    number: int
    value: bytes

    @property
    def can_be_combined(self) -> bool:
        """Whether it may be in a Txn with entries of other proxies."""


_A = TypeVar("_A", bound=Appendable)


class Combining:
    """What other parts ask of combined appends. It has both ends: any proxy may become the combiner."""

    def __init__(self, context: Context, living: LivingProxies, quiet_for: Callable[[], float]) -> None:
        """`quiet_for()`: how many seconds ago the last entry of another proxy was applied."""
        self._settings = context.settings
        self._living = living
        self._quiet_for = quiet_for
        self._client = client = CombinerClient(context, living)
        self._server = server = CombinerServer(context, living)
        # The calls that only one end takes.
        self.run, self.shown = client.run, client.shown
        self.listen, self.applied, self.proxy_gone = server.listen, server.applied, server.proxy_gone

    def start(self, incarnation: str, revision: int) -> None:
        """Entries have this incarnation from now on. `revision`: at which its key was put."""
        self._client.hello = Hello(revision, incarnation)

    def stop(self) -> None:
        """The incarnation is over."""
        if self._client.hello is not None:
            self._server.combiner.forget(self._client.hello.incarnation)
        self._client.stop()

    async def close(self) -> None:
        """Take and give no more entries."""
        await self._server.close()
        self._client.close()

    def begin(
        self, entry: _A, appended: Callable[[_A, TxnResult, float], None], direct: Callable[[_A], None]
    ) -> None:
        """Append an entry together with those of other proxies, if that is worth it.

        `direct(entry)`: append it by a Txn of its own. Called at once, or when it may not be in the log.
        `appended` also gets etcd's answer and its seconds, if this proxy is the combiner. Else the entry is
        in the log when the stream shows it, and then `shown` has to be called.
        """
        client, server = self._client, self._server
        hello = client.hello
        if (
            (client.connection is None and not server.connection_of)  # it has no combiner, and is none
            or hello is None
            or not entry.can_be_combined
            or len(entry.value) > MOST_BYTES
            or self._quiet_for() > self._settings.combine_waits.idle_after
            or self._living.combiner is None
        ):
            direct(entry)
        elif server.connection_of and server.choice.together:
            calls = partial(direct, entry), partial(appended, entry)
            server.combiner.add(Offer(hello.incarnation, hello.revision, entry.number, entry.value, *calls))
        elif not client.offer(entry.number, entry.value, partial(direct, entry)):
            direct(entry)

    @property
    def state(self) -> Combined:
        """Which proxy appends this one's entries, or why it does so itself. For operators."""
        hello, chosen = self._client.hello, self._living.combiner
        if not self._settings.peer_port.address:
            return Combined(why="it lacks --peer-listen")
        if hello is None:
            return Combined(why="it is not registered in etcd")
        if chosen is None:
            return Combined(why="another proxy lacks --peer-listen")
        connection, is_it = self._client.connection, chosen.incarnation == hello.incarnation
        mode = self._server.mode if is_it else connection.mode if connection is not None else Mode()
        if not mode.usually:
            return Combined(why="that is quicker now")
        if is_it:
            return Combined(hello.incarnation)
        if connection is not None:
            return Combined(connection.combiner)
        return Combined(why=self._client.why_unused or "it has not connected to the combiner yet")
