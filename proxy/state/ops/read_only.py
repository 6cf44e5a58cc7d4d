"""What a read-only session may do: reads are answered, all else is refused (ReadOnlyRequestProcessor)."""

from typing import NoReturn

from codec.constants import ErrorCode
from proxy.state.operation import Client, Reading
from proxy.state.refusal import Refusal


def not_read_only(_reading: Reading, _client: Client, _frame: bytes, _position: int) -> NoReturn:
    """In place of every write, and of sync."""
    raise Refusal(ErrorCode.NOT_READ_ONLY)


def close_session(_reading: Reading, client: Client, _frame: bytes, _position: int) -> bytes:
    """In place of closeSession: the session is known to this server only."""
    client.local_session_closed()
    return b""
