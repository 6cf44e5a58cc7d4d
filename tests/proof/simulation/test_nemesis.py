"""Faults that could make something wrong by themselves."""

from types import SimpleNamespace

from proof.simulation.nemesis import SPARE, Nemesis
from proof.simulation.world import World
from proxy.state import capture
from proxy.state.node import make_node


def test_no_memory_is_damaged_in_the_middle_of_a_request() -> None:
    """While the digest takes in what a long request has changed, nothing may change (seed 143)."""
    machine = capture.new_machine(1)
    machine.tree.attach(SPARE, make_node(b"spare", (), 0, 1, 1, 1, 0, 0, 0, 0, 0))
    state = SimpleNamespace(is_whole=False)
    server = SimpleNamespace(machine=machine, log=SimpleNamespace(applier=SimpleNamespace(worker=state)))
    proxy = SimpleNamespace(name="proxy1", alive=True, serving=True, server=server)
    subject = SimpleNamespace(
        world=World(1),
        cluster=None,
        oracle=None,
        proxies=[proxy],
        is_tainted=lambda: False,
        taint=lambda _proxy: None,
    )
    nemesis = Nemesis(subject)
    assert nemesis.begin("memory") is None
    assert machine.tree.nodes[SPARE].data == b"spare"
    state.is_whole = True
    assert nemesis.begin("memory") is not None
    assert machine.tree.nodes[SPARE].data == b"flipped"
