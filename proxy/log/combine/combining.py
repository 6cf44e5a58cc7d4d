"""A proxy's part in combined appends: it is the combiner, hands its entries to it, or appends them itself."""

from collections.abc import Callable

from proxy.etcd.model import TxnResult
from proxy.log.combine.client import Client
from proxy.log.combine.combiner import Offer
from proxy.log.combine.messages import MOST_BYTES, Hello, Way
from proxy.log.combine.server import Server
from proxy.log.context import Context
from proxy.log.living import LivingProxies
from proxy.log.status import Combined


class Combining:
    """What the appender asks of combined appends. It has both ends: any proxy may become the combiner."""

    def __init__(self, context: Context, living: LivingProxies, quiet_for: Callable[[], float]) -> None:
        """`quiet_for()`: how many seconds ago the last entry of another proxy was applied."""
        self._settings = context.settings
        self._living = living
        self._quiet_for = quiet_for
        self.client = Client(context, living)
        self.server = Server(context, living)

    def start(self, incarnation: str, revision: int) -> None:
        """Entries have this incarnation from now on. `revision`: at which its key was put."""
        self.client.hello = Hello(revision, incarnation)

    def stop(self) -> None:
        """The incarnation is over."""
        if self.client.hello is not None:
            self.server.combiner.forget(self.client.hello.incarnation)
        self.client.stop()

    async def close(self) -> None:
        """Take and give no more entries."""
        await self.server.close()
        self.client.close()

    @property
    def is_on(self) -> bool:
        """Whether entries may be appended together: this proxy has a combiner, or combines for others."""
        return self.client.line is not None or bool(self.server.guests)

    def begin(
        self,
        number: int,
        value: bytes,
        appended: Callable[[TxnResult, float], None],
        direct: Callable[[], None],
    ) -> None:
        """Append an entry together with those of other proxies, if that is worth it.

        `direct()`: append it by a Txn of its own. Called at once, or when it may not be in the log.
        `appended` gets etcd's answer and its seconds, if this proxy is the combiner. Else the entry is in the
        log when the stream shows it, and then `shown` has to be called.
        """
        hello = self.client.hello
        if (
            hello is None
            or len(value) > MOST_BYTES
            or self._quiet_for() > self._settings.combine_waits.idle_after
            or self._living.combiner is None
        ):
            direct()
        elif self.server.guests and self.server.choice.together:
            offer = Offer(hello.incarnation, hello.revision, number, value, direct, appended)
            self.server.combiner.add(offer)
        elif not self.client.offer(number, value, direct):
            direct()

    @property
    def state(self) -> Combined:
        """Which proxy appends this one's entries, or why it does so itself. For operators."""
        hello, chosen = self.client.hello, self._living.combiner
        if not self._settings.peer_port.address:
            return Combined(why="it lacks --peer-listen")
        if hello is None:
            return Combined(why="it is not registered in etcd")
        if chosen is None:
            return Combined(why="another proxy lacks --peer-listen")
        line, is_it = self.client.line, chosen.incarnation == hello.incarnation
        way = self.server.way if is_it else line.way if line is not None else Way()
        if not way.usually:
            return Combined(why="that is quicker now")
        if is_it:
            return Combined(hello.incarnation)
        if line is not None:
            return Combined(line.combiner)
        return Combined(why=self.client.trouble or "it has not connected to the combiner yet")
