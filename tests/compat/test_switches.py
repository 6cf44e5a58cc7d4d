"""What ZooKeeper's system properties switch, on real ZooKeeper and zketcd set alike."""

import pytest

from lab.servers import EtcdServer
from tests.compat.cases import CASES
from tests.compat.conftest import real_zookeeper, zketcd_proxy
from tests.compat.generate import Generator
from tests.compat.runner import demand_equal
from tests.compat.side import Server

pytestmark = pytest.mark.real


QUOTAS = ("quotas", "quotas_of_what_is_not_there")


def test_enforced_quotas(etcd_server: EtcdServer) -> None:
    with (
        real_zookeeper({"zookeeper.enforceQuota": "true"}) as zookeeper,
        zketcd_proxy(etcd_server, "/enforced", enforce_quota="true") as proxy,
    ):
        sides = Server("zookeeper", (zookeeper.port,)), Server("zketcd", (proxy.port,))
        for name in QUOTAS:
            demand_equal(CASES[name], *sides)
        for seed in range(3):
            demand_equal(Generator(seed, quotas=True).script(200), *sides)


def test_without_extended_types(etcd_server: EtcdServer) -> None:
    """ZooKeeper's default: no TTL nodes, containers all the same."""
    with (
        real_zookeeper({"zookeeper.extendedTypesEnabled": "false"}) as zookeeper,
        zketcd_proxy(etcd_server, "/switches", extended_types_enabled="false") as proxy,
    ):
        sides = Server("zookeeper", (zookeeper.port,)), Server("zketcd", (proxy.port,))
        for name in ("containers", "ttl_nodes", "mortal_nodes_in_multi", "multi_with_flags_6"):
            demand_equal(CASES[name], *sides)
