"""Which ends of sessions come too early."""

import pytest

from proof.simulation.etcd import Cluster
from proof.simulation.expiry import ExpiryJudge
from proof.simulation.network import Network
from proof.simulation.world import World

SESSION, PROXY = 1, "proxy"


@pytest.mark.parametrize(("decided_at", "early"), [(None, True), (10.0, False), (7.0, True)])
def test_what_a_proxy_hears_once_it_has_decided_is_too_late(decided_at: float | None, early: bool) -> None:
    """A CLOSE may be on its way for long."""
    world = World(1)
    wrong: list[str] = []
    judge = ExpiryJudge(world, Cluster(world, Network(world)), wrong.append)
    judge.attached(SESSION, PROXY, 8000, False)
    world.run(2)
    judge.heard(SESSION, PROXY)
    if decided_at is not None:
        world.run(decided_at)
        judge.closing(SESSION, PROXY)
    world.run(11)
    judge.heard(SESSION, PROXY)
    world.run(12)
    judge.expired(SESSION, PROXY)
    assert bool(wrong) == early


def test_a_lease_that_is_gone_is_not_renewed() -> None:
    world = World(1)
    store = Cluster(world, Network(world)).store
    store.lease_grant(5, 10)
    world.run(3)
    store.now = world.now
    store.lease_revoke(5)
    assert store.lease_renew(5) == 0
    assert store.renewed[5] < 3
