"""sync: a barrier. It looks at nothing; its Txn's marker reaching the mirror is all it waits for."""

from codec.jute import Reader, pack_string
from codec.packets import decoder
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation


def apply(_draft: Draft, _caller: Caller, path: str | None) -> str | None:
    """Nothing to do: the batch commits a marker in any case. The path only goes back, even a null."""
    return path


def reply(path: str | None, _zxid: int) -> bytes:
    """The path again."""
    return pack_string(path)


SYNC = WriteOperation(decoder(Reader.string), apply, reply)
