"""Only what is on the list of definite refusals is one."""

from proxy.etcd.failures import error_for
from proxy.etcd.model import EtcdNoSpace, EtcdRefused, EtcdUnknown, RefusalKind
from tests.table import one_by_one


@one_by_one(
    "details",
    [
        "etcdserver: request timed out",
        "etcdserver: request timed out, possibly due to previous leader failure",
        "etcdserver: leader changed",
        "etcdserver: no leader",
        "etcdserver: too many requests",
        "etcdserver: server stopped",
        "Deadline Exceeded",
        "failed to connect to all addresses",
        "Socket closed",
        "CLIENT: Received message larger than max (9 vs. 8)",
        "",
    ],
)
def test_other_messages_are_unknown(details: str) -> None:
    assert type(error_for(details)) is EtcdUnknown


def test_no_space_is_not_definite() -> None:
    assert type(error_for("etcdserver: mvcc: database space exceeded")) is EtcdNoSpace


def test_too_large_in_all_its_wordings() -> None:
    for details in (
        "grpc: received message larger than max (5600018 vs. 2097152)",
        "etcdserver: request is too large",
    ):
        error = error_for(details)
        assert isinstance(error, EtcdRefused)
        assert (error.kind, error.message) == (RefusalKind.TOO_LARGE, details)
