"""A small tree to try single operations on."""

from typing import Any

from codec.constants import ErrorCode
from codec.jute import Acl
from schema.entry import Rules
from tests.proxy.state.naive import Asked, Check, Create, Multi, MultiAnswer, SetAcl
from tests.proxy.state.world import RULES, World

CLOSED = (Acl(0, "world", "anyone"),)
READ_ONLY = (Acl(1, "world", "anyone"),)
OPEN = (Acl(31, "world", "anyone"),)
BAD = (Acl(31, "nonsense", "x"),)


def room() -> World:
    """/open with a child, /closed to all, /read-only, and the ephemeral /brief of session 1."""
    world = World((1, 2))
    world.do(Create("/open"), Create("/open/child"), Create("/brief", flags=1))
    world.do(Create("/closed", acl=CLOSED), Create("/read-only", acl=READ_ONLY))
    return world


def with_quota(path: str, limits: bytes) -> World:
    """The room with a quota on a path, whose hard limits are enforced."""
    world = room()
    world.rules = RULES | Rules.ENFORCE_QUOTA
    quota = f"/zookeeper/quota{path}"
    world.do(Create(quota))
    world.do(Create(f"{quota}/zookeeper_limits", limits), Create(f"{quota}/zookeeper_stats"))
    return world


def do(world: World, *asked: Asked, session: int = 1) -> list[Any]:
    """Apply requests as one entry; their answers."""
    return world.do(*asked, session=session, clock=50)


def _prepared(*, keeper: bool) -> World:
    world = room()
    world.rules = int(Rules.EXTENDED_TYPES | Rules.KEEPER) if keeper else int(Rules.EXTENDED_TYPES)
    return world


def refusal(asked: Asked, *, keeper: bool = True) -> ErrorCode | None:
    """The code that refuses a request in the room, by itself and as part of a multi; None if it is done.

    With `keeper` the server keeps /keeper for itself and knows Keeper's requests.
    """
    alone = None
    if not isinstance(asked, Check):
        (answer,) = do(_prepared(keeper=keeper), asked)
        alone = answer if isinstance(answer, ErrorCode) else None
        if isinstance(asked, Multi | SetAcl):
            return alone
    (answer,) = do(_prepared(keeper=keeper), Multi((asked,)))  # type: ignore[arg-type]
    assert isinstance(answer, MultiAnswer)
    within = None if answer.failed_at is None else answer.code
    assert isinstance(asked, Check) or within == alone
    return within
