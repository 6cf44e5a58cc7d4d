"""The network between hosts: latency, cuts in one or both directions, and streams that keep their order.

A link is named by the hosts at its two ends. What is sent over a cut link waits until the link is mended, as
TCP sends it again, or is lost, as the sender's `cut` says.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from proof.simulation.world import Host, World


class Network:
    """The links between all hosts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random("network")
        self._cut: dict[tuple[str, str], int] = {}  # (from, to): how many faults cut it
        self._waiting: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._slow: dict[str, float] = {}  # seconds more, by host
        #: By host, the processes that take connections of other proxies (`peers`).
        self.ports: dict[str, list[Any]] = {}
        #: Clients that take their replies slowly, and for how many faults.
        self.slow_readers: Counter[str] = Counter()
        #: Seconds that a message takes, from and to.
        self.latency = (0.0002, 0.003)

    def delay(self, source: str, target: str) -> float:
        """Seconds that one message takes now."""
        low, high = self.latency
        seconds = low + (high - low) * self._random.random() ** 2
        if self._slow:
            seconds += (self._slow.get(source, 0.0) + self._slow.get(target, 0.0)) * self._random.random()
        return seconds

    def slow(self, host: str, seconds: float) -> None:
        """Make all messages from and to a host take up to so many seconds more; 0 ends it."""
        self._slow[host] = seconds
        if not seconds:
            del self._slow[host]

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing gets from one host to another."""
        return bool(self._cut) and (source, target) in self._cut

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Let nothing pass from the first host of each pair to the second."""
        for pair in pairs:
            self._cut[pair] = self._cut.get(pair, 0) + 1

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Undo one `cut`; what has waited is sent now."""
        for pair in pairs:
            left = self._cut[pair] - 1
            if left:
                self._cut[pair] = left
                continue
            del self._cut[pair]
            for send in self._waiting.pop(pair, ()):
                send()

    def send(
        self, source: str, target: Host, at: str, deliver: Callable[..., object], *arguments: Any
    ) -> None:
        """Call `deliver` on a host after the latency. `at`: the name of the place there.

        Over a cut link it waits until that is mended. Messages may overtake each other.
        """
        if self.is_cut(source, at):
            self._waiting.setdefault((source, at), []).append(
                lambda: self.send(source, target, at, deliver, *arguments)
            )
            return
        target.call_soon_at(self._world.now + self.delay(source, at), deliver, *arguments)

    def hold(self, source: str, target: str, send: Callable[[], None]) -> None:
        """Call `send` when the link is mended."""
        self._waiting.setdefault((source, target), []).append(send)


class Pipe:
    """One direction of a connection: what goes in comes out in the same order."""

    def __init__(
        self, network: Network, source: str, target: Host, at: str, deliver: Callable[[Any], object]
    ) -> None:
        """`deliver` is called on `target` with each item; `at` is the place there."""
        self._network = network
        self._source = source
        self._target = target
        self._at = at
        self._deliver = deliver
        self._last = 0.0
        self._held: list[Any] = []
        self._flying: deque[tuple[float, Any]] = deque()
        self._moves = 0
        self.broken = False

    def send(self, item: Any, extra: float = 0.0) -> None:
        """Send one item; `extra` seconds late."""
        if self.broken:
            return
        if self._held or self._network.is_cut(self._source, self._at):
            if not self._held:
                self._network.hold(self._source, self._at, self._flush)
            self._held.append(item)
            return
        world = self._target.world
        self._last = max(self._last, world.now + extra + self._network.delay(self._source, self._at))
        self._flying.append((self._last, item))
        self._target.call_soon_at(self._last, self._arrive, self._moves)

    def move(self, target: Host, deliver: Callable[[Any], object]) -> None:
        """From now on another process at the same place gets what arrives, what is on its way included."""
        self._target, self._deliver = target, deliver
        self._moves += 1
        for when, _ in self._flying:
            target.call_soon_at(max(when, target.world.now), self._arrive, self._moves)

    def _flush(self) -> None:
        held, self._held = self._held, []
        for item in held:
            self.send(item)

    def _arrive(self, moves: int) -> None:
        if moves == self._moves:
            _, item = self._flying.popleft()
            if not self.broken:
                self._deliver(item)

    def break_off(self) -> None:
        """Deliver nothing more."""
        self.broken = True
        self._held.clear()
