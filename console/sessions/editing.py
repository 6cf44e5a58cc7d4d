"""Changes that the console's users make, each by a session of its own with the user's identities.

`local_session` carries the requests. Here: their bytes, and what is said of their outcomes.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from codec import client as zk
from codec.client import MultiFailed, Request, ZooKeeperError
from codec.constants import CreateMode, ErrorCode
from codec.jute import OPEN_ACL, Acl
from console.people.logins import Refused
from console.sessions.local_session import LocalSession, NoAnswer, NoSession
from proxy.frontend.audit import CONSOLE
from proxy.frontend.connection import Connection
from proxy.state.auth.scheme import Identities, Identity
from proxy.support.controls import shortened
from schema.znode import MAX_TTL

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The kinds of nodes that can be created: one whose session ends at once would be gone with it.
MODES = {
    "persistent": CreateMode.PERSISTENT,
    "sequential": CreateMode.PERSISTENT_SEQUENTIAL,
    "container": CreateMode.CONTAINER,
    "ttl": CreateMode.PERSISTENT_WITH_TTL,
}
_FLAGS = {kind: flags for kind, flags in MODES.items() if kind != "sequential"}
#: The ACLs that a new node can get: for all clients, or for the proven identities of its creator.
ACLS: dict[str, Sequence[Acl]] = {"world": OPEN_ACL, "creator": (Acl(31, "auth", ""),)}
_MOST_OF_PATH = 1024  # characters of a path in the log

_WORDS: dict[int, tuple[int, str]] = {
    ErrorCode.NO_NODE: (404, "there is no such znode"),
    ErrorCode.NO_AUTH: (403, "the ACL does not permit it to the identities of this login"),
    ErrorCode.BAD_VERSION: (409, "the znode has another version: somebody has changed it meanwhile"),
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: (409, "an ephemeral znode cannot have children"),
    ErrorCode.NODE_EXISTS: (409, "there is a znode with this path already"),
    ErrorCode.NOT_EMPTY: (409, "the znode has children"),
    ErrorCode.INVALID_ACL: (400, "this login has no identity that can own the znode: add one first"),
    ErrorCode.BAD_ARGUMENTS: (400, "the path, the data or the mode is not allowed"),
    ErrorCode.UNIMPLEMENTED: (400, "this proxy does not offer it (--extended-types-enabled)"),
    ErrorCode.QUOTA_EXCEEDED: (409, "a quota does not allow it"),
    ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH: (
        403,
        "--enforce-auth-schemes demands an identity that this login does not have",
    ),
    ErrorCode.SYSTEM_ERROR: (503, "etcd has no space, or the request failed: see the log of this proxy"),
}


class Item(NamedTuple):
    """A znode to be created with others."""

    path: str
    kind: str  # as schema.znode.kind_of
    ttl: int
    data: bytes | None
    acl: tuple[Acl, ...] | None  # None: the login may not see all of it


class Editor(NamedTuple):
    """On whose behalf changes are made, and from where."""

    make: Callable[[], Connection]
    address: str
    users: tuple[str, ...]  # of the console; "" where it needs no login
    identities: Identities

    def session(self) -> LocalSession:
        """A session that has the users' identities, and names them in the audit log."""
        named = tuple(Identity(CONSOLE, user or "local") for user in self.users)
        return LocalSession(self.make, (self.address, 0), (*self.identities, *named))


async def create(editor: Editor, path: str, data: bytes, mode: str, ttl: int, acl: str) -> str:
    """Create a znode; returns its path. Raises Refused, NoAnswer, NoSession."""
    if mode not in MODES or acl not in ACLS:
        raise Refused(400, f"mode is one of {', '.join(MODES)}; acl one of {', '.join(ACLS)}")
    if mode == "ttl" and not 1 <= ttl <= MAX_TTL:
        raise Refused(400, f"ttl is in milliseconds, from 1 to {MAX_TTL}")
    return await _one(editor, "create", zk.create(path, data, MODES[mode], ACLS[acl], ttl))


async def set_data(editor: Editor, path: str, data: bytes, version: int) -> None:
    """Replace a znode's data if it has this version (-1: any). Raises Refused, NoAnswer, NoSession."""
    await _one(editor, "set", zk.set_data(path, data, version))


async def delete(editor: Editor, path: str, version: int) -> None:
    """Delete a znode without children if it has this version (-1: any).

    Raises Refused, NoAnswer, NoSession.
    """
    await _one(editor, "delete", zk.delete(path, version))


async def create_all(editor: Editor, items: Sequence[Item], what: str, *, together: bool = False) -> int:
    """Create znodes in this order, some hundreds in each transaction, or all in one; how many were created.

    Raises Refused, which says how many were created before, NoAnswer and NoSession.
    """
    operations = [_creation(item) for item in items]
    batches = [operations] if together else zk.batches(operations)
    return await _several(editor, what, items[0].path, batches, f"of {len(items)} znodes were created")


def _creation(item: Item) -> Request[str]:
    """A part of a multi. Raises Refused."""
    flags = _FLAGS.get(item.kind)
    if flags is None:
        raise Refused(400, f"{item.path}: kind is one of {', '.join(_FLAGS)}")
    if item.kind == "ttl" and not 1 <= item.ttl <= MAX_TTL:
        raise Refused(400, f"{item.path}: ttl is in milliseconds, from 1 to {MAX_TTL}")
    return zk.create(item.path, item.data, flags, item.acl or OPEN_ACL, item.ttl)


async def delete_all(editor: Editor, paths: Sequence[str]) -> int:
    """Delete znodes in this order, some hundreds in each transaction; how many were deleted.

    Raises Refused, which says how many went before, NoAnswer and NoSession.
    """
    batches = zk.batches([zk.delete(path) for path in paths])
    what = "delete recursively"
    return await _several(editor, what, paths[-1], batches, f"of {len(paths)} znodes were deleted")


async def _several(
    editor: Editor, what: str, top: str, batches: Iterable[Sequence[Request[Any]]], outcome: str
) -> int:
    """Each batch in a transaction of its own; how many requests they had."""
    done = 0
    async with editor.session() as session:
        for batch in batches:
            try:
                await session.ask(zk.multi(batch))
            except ZooKeeperError as error:
                failed = batch[error.failed if isinstance(error, MultiFailed) else 0].path
                status, words = _words(error.code)
                _log(editor, what, f"{failed} ({done} znodes before)", words)
                raise Refused(status, f"{failed}: {words}. {done} {outcome}") from None
            done += len(batch)
    _log(editor, what, f"{top} ({done} znodes)", "done")
    return done


async def _one(editor: Editor, what: str, request: Request[T]) -> T:
    path = request.path
    try:
        async with editor.session() as session:
            answer = await session.ask(request)
    except (NoAnswer, NoSession) as error:
        _log(editor, what, path, str(error))
        raise
    except ZooKeeperError as error:
        status, words = _words(error.code)
        _log(editor, what, path, words)
        raise Refused(status, f"{path}: {words}") from None
    _log(editor, what, path, "done")
    return answer


def _words(err: int) -> tuple[int, str]:
    known = _WORDS.get(err)
    if known is not None:
        return known
    return 409, f"refused with {zk.name_of(err)}"


def _log(editor: Editor, what: str, path: str, outcome: str) -> None:
    users = ", ".join(user or "local" for user in editor.users)
    log.info(
        "console: %r from %s: %s %r: %s", users, editor.address, what, shortened(path, _MOST_OF_PATH), outcome
    )
