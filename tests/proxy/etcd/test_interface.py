"""The client and the fake have the methods that the interface promises, called the same way."""

import inspect

import pytest

from lab.fakes.etcd import FakeEtcdClient
from proxy.etcd.client import EtcdClient
from proxy.etcd.interface import Etcd

METHODS = [name for name, _ in inspect.getmembers(Etcd, inspect.isfunction) if not name.startswith("_")]


def parameters(kind: type, method: str) -> list[tuple[str, object]]:
    return [(one.name, one.kind) for one in inspect.signature(getattr(kind, method)).parameters.values()]


@pytest.mark.parametrize("implementation", [EtcdClient, FakeEtcdClient])
@pytest.mark.parametrize("method", METHODS)
def test_signatures_agree(implementation: type, method: str) -> None:
    assert parameters(implementation, method) == parameters(Etcd, method)


def test_the_interface_is_whole() -> None:
    public = {name for name, _ in inspect.getmembers(EtcdClient, inspect.isfunction) if name[0] != "_"}
    # These are between the client and its streams.
    assert public - {"fail_over", "leave", "forget", "failure"} == set(METHODS)
