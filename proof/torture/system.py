"""What a round asks of the system that it tortures: zketcd on etcd, or ZooKeeper itself."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from proof.history import History
from proof.simulation.loads import Home
from proof.torture.judge import Acknowledged, Seen, Verdict


class Fault(NamedTuple):
    """One fault that lasts: what it is, for people, and what ends it."""

    what: str
    end: Callable[[], None]
    last: bool = False
    """Whether other faults have to end before it."""


Servers = TypeVar("Servers")


class Kind(NamedTuple, Generic[Servers]):
    """One kind of fault, and the servers that can have it."""

    what: str
    """For people."""
    begin: Callable[[Servers, random.Random], Fault]
    """Make one fault; what is left to chance, the seed decides. Blocks.

    Where another fault has left nothing to do, it does nothing.
    """


class Evidence(NamedTuple):
    """What a round has come to, and is judged by."""

    history: History
    answers: Sequence[Acknowledged]
    homes: Mapping[int, Sequence[Home]]
    """By session the servers where it was."""
    early: Sequence[tuple[int, str]]
    """Sessions that ended too early, unless that is excused, and what to say of each."""
    seen: Mapping[str, Seen]
    """The whole tree as each server has it."""
    broken: bool
    """Whether something is wrong already, so that the trees need not be alike."""


class System(Protocol):
    """Servers behind relays, their faults, and what is known of them beside the clients."""

    name: str
    ports: Mapping[str, int]
    """Where clients reach each server, over a relay."""
    direct: Mapping[str, int]
    """The same past the relays."""

    def following(self) -> AbstractAsyncContextManager[object]:
        """While the run lasts."""

    def begin_round(self, on_expiry: Callable[[int], None]) -> None:
        """Another history begins. `on_expiry` gets each session that expires, if that is seen."""

    def begin(self, kind: str) -> Fault:
        """Make one fault. Blocks."""

    def mend(self) -> None:
        """Start what does not run: a fault may have ended more than it meant to. Blocks."""

    def ended(self) -> Sequence[str]:
        """Servers whose processes have ended without a fault that ends them."""

    def lacks(self) -> str:
        """A server that does not serve; "" if all do. Blocks for a moment."""

    async def sessions(self) -> Sequence[str]:
        """Those that have not ended."""

    async def tree(self) -> Mapping[str, bytes | None]:
        """Data by path of all that clients of a round make."""

    def knows(self, zxid: int) -> bool:
        """Whether what is known goes up to this."""

    async def judge(self, evidence: Evidence) -> Verdict:
        """What is wrong."""

    def clean(self) -> None:
        """Make room before the next round. Blocks."""

    def unexpected(self) -> Sequence[str]:
        """New lines of the servers' logs that no fault explains."""

    def snapshots(self) -> int:
        """How many the servers have written."""

    def logs(self) -> Mapping[str, Path]:
        """By server."""
