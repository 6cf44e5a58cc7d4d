"""What all simulated hosts of one run share."""

from collections.abc import Sequence
from typing import NamedTuple

from examples.steps import Steps
from lab.client.meter import Meter
from lab.client.session import OPERATION_TIMEOUT_S, SESSION_TIMEOUT_MS, Address, Session, connect


class Connecting(NamedTuple):
    """How hosts hold their sessions."""

    session_timeout_ms: int = SESSION_TIMEOUT_MS
    operation_timeout_s: float = OPERATION_TIMEOUT_S
    timeout_s: float = 120.0
    """How long a host looks for a server, and how long nothing may happen before all has been done."""

    async def session(
        self, addresses: Sequence[Address], first: int = 0, meter: Meter | None = None
    ) -> Session:
        """A new session at one of the servers, beginning with number `first`. Raises ConnectionLost."""
        return await connect(
            addresses,
            first,
            timeout_ms=self.session_timeout_ms,
            operation_timeout_s=self.operation_timeout_s,
            timeout_s=self.timeout_s,
            meter=meter,
        )


class World:
    """One run: a workload's own class adds its paths and what its hosts know of each other."""

    def __init__(
        self,
        addresses: Sequence[Address],
        meter: Meter,
        connecting: Connecting,
        pause_s: float,
        seed: int = 1,
    ) -> None:
        """`pause_s`: between two looks of a host, or of the observer, for something to do."""
        self.addresses = addresses
        self.meter = meter
        self.connecting = connecting
        self.pause_s = pause_s
        self.seed = seed
        self.steps = Steps()
        self.resting = False
        """Nothing new is begun any more."""
        self._identities = 0

    def rest(self) -> None:
        """Begin nothing new any more."""
        self.resting = True

    def identity(self) -> str:
        """A new name."""
        self._identities += 1
        return f"{self.seed}-{self._identities:06d}"
