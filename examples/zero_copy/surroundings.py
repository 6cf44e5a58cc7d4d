"""Where one run happens, and how its hosts hold their sessions."""

from collections.abc import Sequence
from typing import NamedTuple

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


class Surroundings(NamedTuple):
    """Where one run happens."""

    addresses: Sequence[Address]
    root: str
    """An empty node, the run's own."""
    meter: Meter
    """Counts the requests of all hosts."""
