"""A small tree to try single operations on."""

from codec.constants import ErrorCode
from codec.jute import Acl
from proxy.ops.multi import Failure
from proxy.rules import Rules
from tests.proxy.naive import Asked, Create, Multi
from tests.proxy.world import Proxy, Store, answer_of, request_of, with_keeper

CLOSED = (Acl(0, "world", "anyone"),)
READ_ONLY = (Acl(1, "world", "anyone"),)
OPEN = (Acl(31, "world", "anyone"),)
BAD = (Acl(31, "nonsense", "x"),)


def room() -> Proxy:
    """/open with a child, /closed to all, /read-only, and the ephemeral /brief of session 1."""
    proxy = Proxy(Store((1, 2)))
    do(proxy, Create("/open"), Create("/open/child"), Create("/brief", flags=1))
    do(proxy, Create("/closed", acl=CLOSED), Create("/read-only", acl=READ_ONLY))
    return proxy


def with_quota(path: str, limits: bytes) -> Proxy:
    """The room with a quota on a path, whose hard limits are enforced."""
    proxy = room()
    proxy.rules = Rules(enforce_quota=True)
    quota = f"/zookeeper/quota{path}"
    do(proxy, Create("/zookeeper"), Create("/zookeeper/quota"), Create(quota))
    do(proxy, Create(f"{quota}/zookeeper_limits", limits), Create(f"{quota}/zookeeper_stats"))
    return proxy


def do(proxy: Proxy, *asked: Asked, session: int = 1) -> list[object]:
    """Commit requests as one batch; their answers."""
    batch = proxy.batch(50)
    requests = [request_of(session, single) for single in asked]
    for request in requests:
        assert batch.add(request)
    zxid = proxy.mirror.zxid_of(proxy.commit(batch).revision)
    proxy.catch_up()
    return [answer_of(request, zxid) for request in requests]


def _prepared(*, keeper: bool) -> Proxy:
    proxy = room()
    if keeper:
        with_keeper(proxy)
    return proxy


def refusal(asked: Asked, *, keeper: bool = False) -> ErrorCode | None:
    """The code that refuses a request in the room, by itself and as part of a multi; None if it is done.

    With `keeper` the server keeps /keeper for itself.
    """
    (answer,) = do(_prepared(keeper=keeper), asked)
    single = answer if isinstance(answer, ErrorCode) else None
    if not isinstance(asked, Multi):
        batch = _prepared(keeper=keeper).batch(50)
        request = request_of(1, Multi((asked,)))  # type: ignore[arg-type]
        assert batch.add(request)
        result = request.result
        assert (result.code if isinstance(result, Failure) else None) == single
    return single
