"""sync: a barrier. It looks at nothing; its Txn's marker reaching the mirror is all it waits for."""

from codec.jute import Reader, pack_string
from proxy.acl import Caller
from proxy.draft import Draft
from proxy.operation import WriteOperation


def decode(reader: Reader) -> str:
    """The path, which ZooKeeper only sends back."""
    return reader.text()


def apply(_draft: Draft, _caller: Caller, path: str) -> str:
    """Nothing to do: the batch commits a marker in any case."""
    return path


def reply(path: str, _zxid: int) -> bytes:
    """The path again."""
    return pack_string(path)


SYNC = WriteOperation(decode, apply, reply)
