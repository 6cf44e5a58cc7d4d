"""Which faults come, as the seed says."""

import random

from proof.torture.torture import Chooser

_KINDS = ("a", "b", "c", "d")


def _choices(seed: int, pairs: float, count: int) -> list[list[str]]:
    chance, chooser = random.Random(seed), Chooser(pairs)
    return [chooser(chance, _KINDS) for _ in range(count)]


def test_each_kind_comes_once_before_any_comes_again() -> None:
    chosen = [kind for (kind,) in _choices(1, 0.0, 8)]
    assert sorted(chosen[:4]) == sorted(chosen[4:]) == list(_KINDS)


def test_a_seed_decides() -> None:
    assert _choices(1, 0.3, 50) == _choices(1, 0.3, 50) != _choices(2, 0.3, 50)


def test_two_at_once_are_two_kinds() -> None:
    chosen = _choices(1, 0.5, 200)
    pairs = [kinds for kinds in chosen if len(kinds) == 2]
    assert 50 < len(pairs) < 150
    assert all(len(set(kinds)) == 2 for kinds in pairs)


def test_what_needs_all_of_etcd_comes_alone() -> None:
    chance, chooser = random.Random(1), Chooser(0.5)
    chosen = [chooser(chance, ("restore", "a", "b")) for _ in range(100)]
    assert ["restore"] in chosen
    assert all(kinds == ["restore"] or "restore" not in kinds for kinds in chosen)
