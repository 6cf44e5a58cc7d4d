"""What a client asks for after an answer."""

from random import Random

from proof.history import Create, Delete, GetChildren, Reply
from proof.history.records import SYSTEM_ERROR
from proof.simulation.mix import QUEUES, Mix


def test_where_creates_are_refused_nodes_are_deleted_first() -> None:
    mix = Mix(Random(1), "client")
    mix.learn(GetChildren(QUEUES), Reply(names=("n-1",)))
    assert isinstance(mix.write(), Create)
    mix.learn(Create(f"{QUEUES}/u-"), Reply(SYSTEM_ERROR), SYSTEM_ERROR)
    assert mix.any() == GetChildren(QUEUES)
    names = tuple(f"n-{number}" for number in range(50))
    mix.learn(GetChildren(QUEUES), Reply(names=names))
    deleted = {mix.write() for _ in range(20)}
    assert len(deleted) == 20
    assert deleted <= {Delete(f"{QUEUES}/{name}") for name in names}
    assert isinstance(mix.write(), Create)
