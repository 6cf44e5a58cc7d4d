"""The requests of a read-only session: reads are answered, others refused (ReadOnlyRequestProcessor)."""

from typing import NoReturn

from codec.constants import ErrorCode
from proxy.state.operation import Client, Reading
from proxy.state.outcome import Refusal


def not_read_only(_reading: Reading, _client: Client, _frame: bytes, _position: int) -> NoReturn:
    """Replaces every write, and sync."""
    raise Refusal(ErrorCode.NOT_READ_ONLY)


def close_session(_reading: Reading, client: Client, _frame: bytes, _position: int) -> bytes:
    """Replaces closeSession: only this server knows the session."""
    client.local_session_closed()
    return b""
