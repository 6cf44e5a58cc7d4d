"""sync: a barrier without an effect. It is answered when it and everything before it were applied."""

from codec.jute import Reader, pack_string
from codec.packets import decoder
from proxy.state.operation import Cost, WriteOperation
from proxy.state.transaction import Transaction


def apply(_tx: Transaction, path: str | None) -> str | None:
    """Do nothing. The reply contains the path, even a null one."""
    return path


SYNC = WriteOperation(
    decoder(Reader.string), apply, pack_string, cost=Cost.BYTES, is_update=False, counted="sync", word="SYNC"
)
