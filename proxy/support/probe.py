"""Places inside a proxy that its messages and answers do not show, for a simulation of the whole proxy. Pure.

The code calls `current` at these places. In a server that does nothing. proof.simulation listens: it compares
each state after each entry, and counts branches that are seldom taken, as FoundationDB's CODE_PROBE does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Probe:
    """What is called; a simulation's subclass does something with it."""

    def reached(self, branch: str) -> None:
        """A branch that matters and is seldom taken."""

    def applied(self, machine: Any) -> None:
        """A proxy.state.machine.Machine has applied an entry: in a server, a start, or a snapshot writer."""

    def closing(self, session_id: int, holder: str) -> None:
        """The server is about to append the end of a session, which it takes for one of `holder`'s."""

    def refused(self, session_id: int, opcode: int, fields: Any, machine: Any, *, is_last: bool) -> None:
        """The reserve of etcd's quota refuses a request; `is_last`: only the last room is left."""

    def loading(self, before: int, zxid: int) -> None:
        """The server begins to replace its state, of the zxid `before`, by one that it has loaded."""

    def loaded(self) -> None:
        """It is done: clients read the loaded state from here on."""


current = Probe()
"""The one of this process. To be read as an attribute of this module, since `listening` replaces it."""


@contextmanager
def listening(probe: Probe) -> Iterator[None]:
    """Make this the probe of the process until the block ends."""
    global current  # noqa: PLW0603 - a local name of it would not see who listens
    before, current = current, probe
    try:
        yield
    finally:
        current = before
