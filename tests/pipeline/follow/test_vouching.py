"""The follower's signs of life, one by one. With proxies and processes: test_standby_processes.py."""

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.follow.vouching import vouch
from proxy.etcd.model import Get
from schema.followed import Sign
from schema.keys import Keyspace


class _TakenOver(Exception):
    pass


async def test_no_proxy_sees_a_sign_before_the_copy_knows_for_how_long_it_serves() -> None:
    """A copy that is promoted then would not wait."""
    etcd, keys = FakeEtcdClient(FakeEtcd()), Keyspace("/t")

    async def hold() -> None:
        raise _TakenOver

    with pytest.raises(_TakenOver):
        await vouch(etcd, keys, Sign(15, 0, 1, "/copy"), hold)
    assert not etcd.store.range(Get(keys.heard)).kvs
