"""Checks that etcd can be reached before a command begins: later requests are repeated for a minute."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from pipeline.errors import Failure
from pipeline.etcd.options import Connection
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import Delete, EtcdError, EtcdRefused, Get, Txn

TIMEOUT = 4.0  # seconds, of all tries together
_ONE_TRY = 1.5  # seconds; then another member
_PAUSE = 0.2
_WAIT = 5.0
_DENIED = "permission denied"


@contextlib.asynccontextmanager
async def reached(
    connection: Connection, *, writes: bool = False, waiting: Callable[[str], None] | None = None
) -> AsyncIterator[EtcdClient]:
    """A client of an etcd that answers. Raises Failure within 5 s, ValueError for a bad endpoint.

    `writes`: its user may also write the tree. `waiting`: wait for an etcd that does not answer, and say so.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            etcd = await stack.enter_async_context(connection.client())
        except OSError as error:  # a file of TLS; OpenSSL does not say which one
            access = connection.access
            files = filter(None, (access.ca, access.cert, access.key))
            raise Failure(f"{', '.join(files)}: {error.strerror or error}") from error
        while True:
            try:
                await _answer(etcd, connection, writes)
                break
            except _Unreached as error:
                if waiting is None:
                    raise
                waiting(f"{error}: trying again")
                await asyncio.sleep(_WAIT)
        yield etcd


class _Unreached(Failure):
    """No member answers."""


async def _answer(etcd: EtcdClient, connection: Connection, writes: bool) -> None:
    loop = asyncio.get_running_loop()
    what = "read"
    deadline = loop.time() + TIMEOUT
    reason: EtcdError | None = None
    while True:
        left = deadline - loop.time()
        try:
            # A read of our own prefix: it needs a leader and the user's permission.
            await etcd.range(Get(connection.keys.tree, keys_only=True), min(_ONE_TRY, max(left, _PAUSE)))
            if writes:
                what = "write"
                nothing = Txn((), (Delete(connection.keys.tree + b"\0"),))
                await etcd.txn(nothing, min(_ONE_TRY, max(left, _PAUSE)))
            return
        except EtcdRefused as refused:
            denied = ""
            if _DENIED in str(refused):
                user = connection.access.user
                who = f"user {user}" if user else "this certificate's user"
                denied = f"{who} may not {what} the keys of {connection.prefix}: "
            raise Failure(f"etcd at {connection.etcd} refuses: {denied}{refused}") from refused
        except EtcdError as error:
            if reason is None or left >= _ONE_TRY:  # the last tries may be too short to find out more
                reason = error
            if left > 2 * _PAUSE:
                await asyncio.sleep(_PAUSE)
                continue
            raise _Unreached(
                f"etcd at {connection.etcd} cannot be reached: {_words(reason, connection)}"
            ) from reason


def _words(error: EtcdError, connection: Connection) -> str:
    text = str(error) or type(error).__name__
    tls = connection.etcd.startswith("https:")
    signs = ("deadline exceeded", "ssl", *(("connectionreset",) if tls else ()))
    if not any(sign in text.lower() for sign in signs):
        return text
    if tls:
        return f"{text} (does this port speak TLS?)"
    return f"{text} (is this etcd's client port, and without TLS?)"
