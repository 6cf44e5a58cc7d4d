"""Two etcds: the copy in the second is right at each position, and the tree moves there amid faults."""

import ast
from pathlib import Path

import pytest

import pipeline.etcd
import pipeline.follow
from proof.simulation.copies import CopyJudge
from proof.simulation.followers import CHANCE, CLOCKS
from proof.simulation.standby import LOADED, MOVE, RESUMED, SECOND, TRUNCATED, Standby

#: Modules that read no clock in a world: nothing there follows a ZooKeeper, or writes its files.
_OF_ZOOKEEPER = {"inward", "outward", "tail", "files"}


def test_a_copy_is_followed_amid_faults() -> None:
    world = Standby(3, 0.02, ("copy: kill a proxy", "kill a proxy", SECOND, TRUNCATED))
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert not world.has_moved
    assert world.losing is not None
    assert world.losing.oracle is not None  # at the end its source is lost, and the copy is served
    assert min(world.copy.entries, world.copy.snapshots, world.said[LOADED], world.said[RESUMED]) > 0


def test_a_tree_moves_amid_faults() -> None:
    world = Standby(1, 0.015, (MOVE, "kill a proxy", "copy: kill a proxy"))
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert world.has_moved
    assert (
        Standby(1, 0.015, (MOVE, "kill a proxy", "copy: kill a proxy")).run().fingerprint
        == outcome.fingerprint
    )


def test_a_copy_that_is_another_tree_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopyJudge, "applied", lambda *_: None)
    world = Standby(1, 0.005, ("copy: new leader",))
    assert "right is None" in world.run().violations[0]


def test_clocks_and_chance_of_the_command_are_simulated() -> None:
    found: dict[str, set[str]] = {}
    for package in (pipeline.follow, pipeline.etcd):
        for path in Path(package.__path__[0]).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                for name in {"time", "secrets", "random"} & set(names):
                    found.setdefault(name, set()).add(f"{package.__name__}.{path.stem}")
    ours = {"time": CLOCKS, "secrets": CHANCE}
    for name, modules in found.items():
        simulated = {module.__name__ for module in ours.get(name, ())}
        others = {module for module in modules - simulated if module.rpartition(".")[2] not in _OF_ZOOKEEPER}
        assert not others, name
