"""Every target gets its share of the time, however long the others take."""

import pytest

from proof.fuzzing.turns import Turns


def run(turns: Turns, targets: int, beyond: float, *, rounds: int = 1, now: float = 0.0) -> list[float]:
    """The seconds of each turn, if each takes so many more than it was given."""
    given = []
    for _ in range(targets * rounds):
        assert not turns.are_over
        given.append(turns.next(now))
        now += given[-1] + beyond
        turns.took(given[-1] + beyond)
    return given


def test_the_time_is_divided_evenly() -> None:
    turns = Turns(10, 50.0, 0.0)
    assert run(turns, 10, 0.0) == [5.0] * 10
    assert turns.are_over


def test_what_turns_take_beyond_their_time_is_kept_back_from_all() -> None:
    given = run(Turns(26, 26 * 60.0, 100.0), 26, 10.0, now=100.0)
    assert sum(given) + 26 * 10.0 == pytest.approx(26 * 60.0, rel=0.02)
    assert min(given) > 40.0


def test_a_target_that_takes_all_the_time_leaves_the_others_a_turn() -> None:
    turns = Turns(3, 9.0, 0.0)
    assert turns.next(0.0) == 3.0
    turns.took(1000.0)
    assert turns.next(1000.0) == 0.0
    turns.took(1.0)
    assert turns.place == 2
    assert turns.next(1001.0) == 0.0
    turns.took(1.0)
    assert turns.are_over


def test_without_an_end_all_have_had_a_turn_soon_and_turns_grow() -> None:
    turns = Turns(2, None, 0.0)
    assert run(turns, 2, 3.0, rounds=6) == [5.0, 5.0, 10.0, 10.0, 20.0, 20.0, 40.0, 40.0, *[60.0] * 4]
    assert turns.is_round_over
    assert turns.round == 6
    assert not turns.are_over
