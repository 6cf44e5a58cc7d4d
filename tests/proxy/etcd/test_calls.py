"""Calls to etcd by method and outcome."""

from proxy.etcd.interface import Calls
from proxy.etcd.model import EtcdNoSpace, EtcdRefused, EtcdUnknown, RefusalKind


def test_calls_are_counted_by_method_and_outcome() -> None:
    calls = Calls()
    calls.answered("Txn", 1000)
    calls.answered("Txn", 3000)
    calls.answered("Range", 5)
    assert {method: (times.count, times.total) for method, times in calls.times.items()} == {
        "Txn": (2, 4000),
        "Range": (1, 5),
    }
    for error in (
        EtcdUnknown("gone"),
        EtcdRefused(RefusalKind.TOO_LARGE, "large"),
        EtcdNoSpace("full"),
        EtcdNoSpace("full"),
    ):
        calls.failed("Txn", error)
    assert calls.failures == {("Txn", "unknown"): 1, ("Txn", "refused"): 1, ("Txn", "no space"): 2}
