"""sync: a barrier. It does nothing; its answer comes when it is applied, and so is everything before it."""

from codec.jute import Reader, pack_string
from codec.packets import decoder
from proxy.state.operation import WriteOperation
from proxy.state.transaction import Transaction


def apply(_tx: Transaction, path: str | None) -> str | None:
    """Nothing to do. The path only goes back, even a null."""
    return path


SYNC = WriteOperation(decoder(Reader.string), apply, pack_string)
