"""What a SASL mechanism is to a connection. Pure: types only."""

from typing import NamedTuple, Protocol


class Failed(Exception):
    """The client has not proved who it is. The text says why, for the log; the client does not get it."""

    def __init__(self, reason: str, name: str = "") -> None:
        """`name`: whom the client claims to be, as far as it has said so."""
        super().__init__(reason)
        self.name = name


class Malformed(Failed):
    """As Failed, where ZooKeeper fails on the token itself: it closes without an answer."""


class Step(NamedTuple):
    """One step of an exchange: what goes back to the client, and who it is once that is proven."""

    token: bytes | None
    name: str | None = None


class Exchange(Protocol):
    """The server's side of one exchange, which ends with a name or with `Failed`."""

    @property
    def blocks(self) -> bool:
        """Whether `step` may wait for a disk or the network, so that it needs a thread."""

    def step(self, token: bytes) -> Step:
        """Take the client's next token. Raises Failed."""
