"""A small tree to try single operations on, and a client that reads it."""

from typing import Any

import pytest

from codec.constants import ErrorCode
from codec.jute import Acl
from lab.oracle.requests import Check, Create, DeleteContainer, Multi, SetAcl
from proof.naive import Asked, MultiAnswer
from proxy.state.auth.scheme import Identity
from proxy.state.notifications import Notifications
from proxy.state.ops import EXTENDED
from proxy.state.outcome import Refusal
from proxy.state.rights import Rights
from schema.entry import Rules
from tests.proxy.state.world import RULES, World

CLOSED = (Acl(0, "world", "anyone"),)
READ_ONLY = (Acl(1, "world", "anyone"),)
BAD = (Acl(31, "nonsense", "x"),)


def room(*, keeper: bool = True) -> World:
    """/open with a child, /closed to all, /read-only, and the ephemeral /brief of session 1.

    With `keeper` the server keeps /keeper for itself and knows Keeper's requests.
    """
    world = World((1, 2))
    world.do(Create("/open"), Create("/open/child"), Create("/brief", flags=1))
    world.do(Create("/closed", acls=CLOSED), Create("/read-only", acls=READ_ONLY))
    world.rules = RULES if keeper else int(Rules.EXTENDED_TYPES)
    return world


def do(world: World, *asked: Asked, session: int = 1) -> list[Any]:
    """Apply requests as one entry; their answers."""
    return world.do(*asked, session=session, clock=50)


def refusal(asked: Asked, *, keeper: bool = True) -> ErrorCode | None:
    """The code that refuses a request in the room, alone and as part of a multi; None if it is done."""
    alone = None
    if not isinstance(asked, Check):
        (answer,) = do(room(keeper=keeper), asked)
        alone = answer if isinstance(answer, ErrorCode) else None
        if isinstance(asked, Multi | SetAcl | DeleteContainer):
            return alone
    (answer,) = do(room(keeper=keeper), Multi((asked,)))
    assert isinstance(answer, MultiAnswer)
    within = None if answer.failed_at is None else answer.code
    assert isinstance(asked, Check) or within == alone
    return within


class Client:
    """The client that reads."""

    def __init__(self, *identities: Identity, knows_keeper: bool = False) -> None:
        self.session_id = 1
        self.identities = identities
        self.knows_keeper = knows_keeper
        self.has_left = False
        self.told: list[tuple[int, str, int, Rights]] = []

    def local_session_closed(self) -> None:
        self.has_left = True

    def notify(self, notifications: Notifications) -> None:
        self.told += [
            (kind, path, notifications.zxid, notifications.rights) for kind, path in notifications.events
        ]


def read(world: World, opcode: int, body: bytes, client: Client | None = None) -> bytes:
    """The body of the reply. Raises Refusal."""
    return EXTENDED.reads[opcode].answer(world.reading, client or Client(), b"head" + body, 4)


def refused(world: World, opcode: int, body: bytes, client: Client | None = None) -> ErrorCode:
    """The code that refuses a read."""
    with pytest.raises(Refusal) as refusal:
        read(world, opcode, body, client)
    return refusal.value.code


def held(world: World, client: Client) -> list[set[str | None]]:
    """The paths that a client watches: data, children, persistent and recursive."""
    watches = world.watches
    tables = (watches.data, watches.children, watches.persistent, watches.recursive)
    return [set(table.by_watcher.get(client, ())) for table in tables]
