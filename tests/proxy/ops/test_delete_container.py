"""deleteContainer as clients may send it, and as the proxy itself does."""

import pytest

from codec.constants import ErrorCode
from proxy.acl import Caller
from proxy.batch import Request
from proxy.ops.delete_container import DELETE_CONTAINER, REAP
from tests.proxy.naive import Create, CreateMortal, Delete, DeleteContainer, SetAcl, SetData
from tests.proxy.ops.room import READ_ONLY, do, room
from tests.proxy.world import Proxy


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/open/child", None),  # it need not be a container
        ("/open", ErrorCode.NOT_EMPTY),
        ("/brief", ErrorCode.BAD_VERSION),
        ("/missing", ErrorCode.NO_NODE),
        ("/closed", None),
        ("/open/", ErrorCode.NO_NODE),
        ("relative", ErrorCode.BAD_ARGUMENTS),
        ("", ErrorCode.BAD_ARGUMENTS),
        ("/nul\0l", ErrorCode.BAD_ARGUMENTS),
        ("/", ErrorCode.BAD_ARGUMENTS),
        ("/zookeeper", ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_what_a_client_may_delete_with_it(path: str, code: ErrorCode | None) -> None:
    proxy = room()
    (answer,) = do(proxy, DeleteContainer(path))
    assert (answer if isinstance(answer, ErrorCode) else None) == code
    assert (path in proxy.mirror.tree.nodes) is (code is not None and path in room().mirror.tree.nodes)


def test_a_client_needs_the_permission_that_delete_needs() -> None:
    proxy = room()
    do(proxy, SetAcl("/open", READ_ONLY))
    assert do(proxy, DeleteContainer("/open/child"), Delete("/open/child")) == [ErrorCode.NO_AUTH] * 2


def test_it_fires_what_delete_fires() -> None:
    fired = []
    for asked in (Delete("/open/child"), DeleteContainer("/open/child")):
        proxy = room()
        proxy.watches.fired.clear()
        do(proxy, asked)
        fired.append(proxy.watches.fired)
    assert fired[0] == fired[1] != []


def _reap(proxy: Proxy, path: str, now: int, max_never_used: int = 0) -> ErrorCode | None:
    """The refusal of the proxy's own request at `now` (ms); None if the node is gone."""
    batch = proxy.batch(now)
    request = Request(REAP, (path, max_never_used), Caller(0, ()), 50, _no_one, of_session=False)
    assert batch.add(request)
    proxy.commit(batch)
    proxy.catch_up()
    assert (path in proxy.mirror.tree.nodes) is (request.refusal not in (None, ErrorCode.NO_NODE))
    return request.refusal


def _no_one(_request: Request, _zxid: int) -> None:
    raise AssertionError("nobody answers in these tests")


def test_what_is_due_at_that_very_point_is_reaped() -> None:
    proxy = room()  # its clock stands at 50
    do(proxy, CreateMortal("/c"), CreateMortal("/c/x"), CreateMortal("/t", ttl=10))
    assert _reap(proxy, "/c", 9999) == ErrorCode.NOT_EMPTY
    assert _reap(proxy, "/c/x", 9999) == ErrorCode.BAD_VERSION  # never used
    assert _reap(proxy, "/c/x", 60, max_never_used=10) == ErrorCode.BAD_VERSION
    assert _reap(proxy, "/c/x", 61, max_never_used=10) is None
    assert _reap(proxy, "/c", 61) is None
    assert _reap(proxy, "/c", 61) == ErrorCode.NO_NODE
    assert _reap(proxy, "/t", 60) == ErrorCode.BAD_VERSION
    assert _reap(proxy, "/t", 61) is None
    for path in ("/brief", "/closed", "/open/child"):
        assert _reap(proxy, path, 9999, max_never_used=1) == ErrorCode.BAD_VERSION


def test_an_ordinary_node_in_the_place_of_a_container_stays() -> None:
    proxy = room()
    do(proxy, CreateMortal("/c"), Create("/c/x"), Delete("/c/x"))
    batch = proxy.batch(99)
    for operation, fields in ((DELETE_CONTAINER, "/c"), (REAP, ("/c", 0))):
        assert batch.add(Request(operation, fields, Caller(0, ()), 50, _no_one, of_session=False))
    assert [request.refusal for request in batch.requests] == [None, ErrorCode.NO_NODE]
    do(proxy, DeleteContainer("/c"), Create("/c"), Create("/c/x"), Delete("/c/x"))
    assert _reap(proxy, "/c", 9999) == ErrorCode.BAD_VERSION


def test_who_sets_the_data_meanwhile_wins() -> None:
    """The batch of a proxy that has not heard of it loses: the node and its children are guarded."""
    for change in (SetData("/t"), Create("/t/x")):
        proxy = room()
        do(proxy, CreateMortal("/t", ttl=10))
        late = proxy.batch(70)
        assert late.add(Request(REAP, ("/t", 0), Caller(0, ()), 50, _no_one, of_session=False))
        assert late.requests[0].refusal is None
        do(proxy, change)
        proxy.commit(late)
        proxy.catch_up()
        assert "/t" in proxy.mirror.tree.nodes


def test_neither_is_ever_read_from_the_wire_as_the_proxys_own() -> None:
    with pytest.raises(AssertionError):
        REAP.decode(b"", 0)
