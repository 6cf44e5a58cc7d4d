"""A member of etcd hangs in the simulation: how much longer clients wait than etcd's own."""

import pytest

from proof.gaps import ALLOWED, ALLOWED_EVENTS, KINDS, line
from proof.simulation.gaps import gaps_of, main
from proxy.log.staleness import Staleness
from proxy.log.watch_guard import WatchGuard


@pytest.mark.parametrize(("seed", "proxies"), [(1, 1), (2, 1), (3, 3)])
def test_clients_wait_not_much_longer_than_those_of_etcd(seed: int, proxies: int) -> None:
    gaps = gaps_of(seed, proxies, tuple(KINDS))
    assert sorted(gap.kind for gap in gaps) == sorted(KINDS)
    assert [line(gap) for gap in gaps if not gap.is_within] == []
    leaders = [gap.etcd for gap in gaps if gap.kind in ("stop-leader", "isolate-leader")]
    assert min(leaders) > ALLOWED, "no election was necessary"


def test_a_watch_that_hangs_for_seconds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchGuard, "expect", lambda *_arguments: None)
    (gap,) = gaps_of(2, 1, ("stop-follower",))
    assert gap.excess > ALLOWED


def test_a_watch_that_hangs_where_no_client_writes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Staleness, "_is_delivered", lambda *_arguments: True)
    (gap,) = gaps_of(1, 1, ("stop-follower",))
    assert gap.excess <= ALLOWED
    assert gap.events - gap.etcd > ALLOWED_EVENTS


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kinds", "isolate-follower", "--times", "2", "--seconds", "1", "--verbose"]) == 0
    said = capsys.readouterr().out
    assert "seed    2 isolate-follower" in said
    assert "| isolate-follower | 2 |" in said


def test_the_command_fails_if_too_many_gaps_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchGuard, "expect", lambda *_arguments: None)
    assert main(["--kinds", "stop-follower", "--times", "1", "--seed", "2"]) == 1


def test_bad_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--kinds", "stop-all"])
    assert ended.value.code == 2
