"""A proxy that starts on what another has written serves the same tree, byte by byte."""

import pytest

from lab.oracle.client import tree
from lab.servers import EtcdServer
from tests.compat.acl_cases import SUPER
from tests.compat.conftest import zketcd_proxy
from tests.compat.generate import Generator
from tests.compat.runner import run
from tests.compat.side import Server

pytestmark = pytest.mark.real

SEEDS = range(77, 79)


def test_a_new_proxy_shows_what_the_old_one_showed(etcd_server: EtcdServer) -> None:
    with zketcd_proxy(etcd_server, "/reload") as first, zketcd_proxy(etcd_server, "/reload-2") as beside:
        old = Server("old", (first.port,))
        for seed in SEEDS:
            assert run(Generator(seed).script(150), old, Server("beside", (beside.port,))) is None
            assert run(Generator(seed, bursts=True).script(50), old, Server("beside", (beside.port,))) is None
        with zketcd_proxy(etcd_server, "/reload") as second:
            before, after = (tree(port, "/", SUPER) for port in (first.port, second.port))
    assert len(before) > len(SEEDS)
    assert after == before
