"""A page of the current snapshot is damaged, and never one of each snapshot."""

from random import Random

from proof.simulation.etcd import Cluster
from proof.simulation.network import Network
from proof.simulation.proxies import PREFIX
from proof.simulation.snapshot_faults import SnapshotFaults
from proof.simulation.world import World
from proxy.etcd.model import Get, Put, Txn
from schema.keys import Keyspace
from schema.record import SnapshotRef, TreeRecord, encode_record

KEYS = Keyspace(PREFIX)


def _ref(name: str) -> SnapshotRef:
    return SnapshotRef(name, 1, "writer", 2, 0, 8, 1, 0, 1, 0)


class _Tree:
    """A tree with snapshots in a cluster."""

    def __init__(self) -> None:
        world = World(1)
        cluster = Cluster(world, Network(world))
        self.store = cluster.store
        self._faults = SnapshotFaults(cluster, [], Random(1))

    def damage(self) -> str:
        """As the fault does it."""
        return self._faults.damage()

    def publish(self, current: str | None, previous: str | None) -> None:
        """A snapshot was written, of two pages."""
        refs = [None if name is None else _ref(name) for name in (current, previous)]
        pages = [] if current is None else [KEYS.node_page(current, index) for index in range(2)]
        record = Put(KEYS.tree, encode_record(TreeRecord(True, 1, 1, refs[0], refs[1])))
        self.store.txn(Txn((), (record, *(Put(page, b"page") for page in pages))))

    def page(self, key: str) -> bytes | None:
        """Its value; None if it is gone."""
        found = self.store.range(Get(key.encode())).kvs
        return found[0].value if found else None


def test_only_the_current_snapshot_is_damaged_and_only_if_there_is_another_one() -> None:
    tree = _Tree()
    assert tree.damage() == ""
    for current, previous in ((None, None), ("one", None)):
        tree.publish(current, previous)
        assert tree.damage() == ""
    tree.publish("two", "one")
    page = tree.damage()
    assert page in {KEYS.node_page("two", index).decode() for index in range(2)}
    assert tree.page(page) != b"page"


def test_never_both() -> None:
    tree = _Tree()
    tree.publish("one", None)
    tree.publish("two", "one")
    assert tree.damage()
    assert tree.damage() == ""
    tree.publish("three", "two")  # its writer has loaded before the damage
    assert tree.damage() == ""
    tree.publish("four", "three")
    assert tree.damage()


def test_pages_are_lost_and_changed() -> None:
    tree = _Tree()
    lost: set[bool] = set()
    for number in range(20):
        tree.publish(f"new{number}", f"old{number}")
        lost.add(tree.page(tree.damage()) is None)
    assert lost == {True, False}


def test_a_full_etcd_changes_nothing() -> None:
    tree = _Tree()
    tree.publish("two", "one")
    tree.store.full = True
    for _ in range(5):
        page = tree.damage()
        assert page == "" or tree.page(page) is None  # deletes pass
