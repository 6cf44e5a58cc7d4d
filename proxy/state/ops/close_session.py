"""closeSession: the client ends its session (PrepRequestProcessor, case closeSession)."""

from codec.jute import STRAIGHT, Steps
from proxy.state.operation import WriteOperation, nothing
from proxy.state.transaction import Transaction


def decode(_frame: bytes, position: int, _steps: Steps = STRAIGHT) -> tuple[None, int]:
    """The request has no body."""
    return None, position


def apply(tx: Transaction, _fields: None) -> None:
    """End the session and delete its ephemerals."""
    tx.close_session(tx.session())


CLOSE_SESSION = WriteOperation(decode, apply, nothing, has_path=False, counted="close_session", word="CLOS")
