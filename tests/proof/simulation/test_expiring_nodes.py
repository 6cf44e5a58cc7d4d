"""When containers and TTL nodes must go, and when they must not."""

from proof.simulation.expiring_nodes import ExpiringNodesJudge
from proof.simulation.oracle import Oracle
from proof.simulation.world import World
from proxy.state import capture
from proxy.state.node import Node, make_node
from schema.znode import CONTAINER_OWNER, ttl_owner

_TTL = 60_000  # ms


def _judged(
    owner: int, *, written: float, now: float, created: int = 0
) -> tuple[ExpiringNodesJudge, Node, list[str]]:
    """A judge, a node that was written last at a time of the world, and what the judge says."""
    world = World(1)
    oracle = Oracle(world, 1)
    oracle.machine.become(capture.new_machine(1))
    said: list[str] = []
    judge = ExpiringNodesJudge(oracle, said.append)
    oracle.times += [written]
    oracle.zxids += [5]
    node = make_node(b"", (), owner, 5, 5, 5, 0, 0, 0, created, 0)
    oracle.machine.tree.attach("/m", node)
    world.now = now
    return judge, node, said


def test_a_ttl_node_goes_after_its_ttl() -> None:
    judge, node, said = _judged(ttl_owner(_TTL), written=100.0, now=161.0)
    judge.due("/m", node)
    assert said == []
    assert judge.ended == 1


def test_a_ttl_node_must_not_go_before() -> None:
    judge, node, said = _judged(ttl_owner(_TTL), written=100.0, now=150.0)
    judge.due("/m", node)
    assert said == ["TTL node /m goes 50.000 s after its last write; its TTL is 60.000 s"]


def test_a_ttl_node_must_not_stay() -> None:
    judge, _, said = _judged(ttl_owner(_TTL), written=100.0, now=1000.0)
    judge.look(calm_since=900.0)
    assert said == []
    judge.look(calm_since=100.0)
    assert said == ["TTL node /m should be gone: nothing has happened to it for 900 s"]


def test_a_container_goes_once_it_has_had_a_child() -> None:
    judge, node, said = _judged(CONTAINER_OWNER, written=100.0, now=1000.0)
    judge.look(calm_since=0.0)
    assert said == []
    judge.due("/m", node)
    assert said == ["container /m goes, and never had a child"]


def test_an_empty_container_must_not_stay() -> None:
    judge, _, said = _judged(CONTAINER_OWNER, written=100.0, now=1000.0, created=1)
    judge.look(calm_since=0.0)
    assert said == ["container /m should be gone: nothing has happened to it for 900 s"]
