"""What the server knows of a client. Pure: `identity` finds it out."""

from schema.entry import Identities


class ClientInfo:
    """Where a client is, its session, and the identities that it has proved."""

    __slots__ = ("address", "identities", "port", "session_id")

    def __init__(self, address: str = "", session_id: int = 0) -> None:
        """`session_id`: 0 while there is no session."""
        self.address = address
        self.port = 0  # on the client's side
        self.session_id = session_id
        self.identities: Identities = ()
