"""Which faults come, as the seed says."""

import random

from proof.torture.script import HOLDS, Scene, Script

_KINDS = ("a", "b", "c", "d")


def _scenes(seed: int, pairs: float, count: int, kinds: tuple[str, ...] = _KINDS) -> list[Scene]:
    script = Script(random.Random(seed), kinds, pairs)
    return [script.next() for _ in range(count)]


def test_each_kind_comes_once_before_any_comes_again() -> None:
    chosen = [kind for ((kind,), *_) in _scenes(1, 0.0, 8)]
    assert sorted(chosen[:4]) == sorted(chosen[4:]) == list(_KINDS)


def test_a_seed_decides() -> None:
    assert _scenes(1, 0.3, 50) == _scenes(1, 0.3, 50) != _scenes(2, 0.3, 50)


def test_two_at_once_are_two_kinds() -> None:
    chosen = [scene.kinds for scene in _scenes(1, 0.5, 200)]
    pairs = [kinds for kinds in chosen if len(kinds) == 2]
    assert 50 < len(pairs) < 150
    assert all(len(set(kinds)) == 2 for kinds in pairs)


def test_what_needs_all_of_etcd_comes_alone() -> None:
    chosen = [scene.kinds for scene in _scenes(1, 0.5, 100, ("restore", "a", "b"))]
    assert ["restore"] in chosen
    assert all(kinds == ["restore"] or "restore" not in kinds for kinds in chosen)


def test_holds_and_deaths_are_the_scripts() -> None:
    scenes = _scenes(1, 0.0, 200)
    assert {scene.hold for scene in scenes} == set(HOLDS)
    assert 20 < sum(scene.dies for scene in scenes) < 60
    only = Script(random.Random(1), _KINDS, 0.0, (0.5,))
    assert only.next().hold == 0.5
