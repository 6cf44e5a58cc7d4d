"""What the log reports to the parts of a proxy above it. All calls are in the order of the log."""

from collections.abc import Container
from typing import Protocol

from proxy.state.machine import Disagreement
from proxy.state.outcome import SessionChange


class SessionChanges(Protocol):
    """The keeper of sessions, as far as the applier notifies it."""

    def session_changed(self, change: SessionChange) -> None:
        """A session began, moved to another proxy, or ended."""


class SessionKeeper(SessionChanges, Protocol):
    """Keeps the sessions of this proxy, and those of dead proxies (`frontend.sessions`)."""

    def registered(self, incarnation: str) -> None:
        """This proxy appends under this name from now on."""

    def proxy_came(self, incarnation: str) -> None:
        """A proxy lives."""

    def proxy_gone(self, incarnation: str) -> None:
        """A proxy's key is gone: it stopped, or died."""

    def loaded(self, living: Container[str]) -> None:
        """The state was loaded, at the start or again. `living`: the living incarnations."""


class Listener(Protocol):
    """Reacts to faults of the state."""

    def stopped_serving(self, reason: str) -> None:
        """The state may be old or wrong: close all connections, and accept none until `Contact.serving`."""

    def disagreed(self, disagreement: Disagreement) -> None:
        """The digest of another proxy differs from ours. Each disagreement is reported once."""
