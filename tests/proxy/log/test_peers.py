"""What other proxies' entries show: the smallest recent difference of the clocks, and the last distance."""

from proxy.log.members import Peers


def heard(peers: Peers, incarnation: str, clock: int, now: int) -> None:
    peers.note(incarnation, clock, 0, 0, now)


def test_the_way_of_an_entry_does_not_count() -> None:
    peers = Peers()
    assert peers.clock_skew == 0.0
    for delay in (40, 3, 900):
        heard(peers, "a", 1_000_000, 1_000_000 + delay)
    assert peers.clock_skew == 0.003


def test_a_clock_ahead_and_one_behind() -> None:
    peers = Peers()
    heard(peers, "ahead", 1_007_000, 1_000_000)
    heard(peers, "behind", 996_000, 1_000_000)
    assert peers.clock_skew == 7.0
    peers.forget("ahead")
    assert peers.clock_skew == 4.0


def test_a_change_of_a_clock_shows_after_a_period() -> None:
    peers = Peers()
    heard(peers, "a", 5_000, 0)
    heard(peers, "a", 61_000, 61_000)
    assert peers.clock_skew == 0.0
    for now in range(62_000, 300_000, 1_000):
        heard(peers, "a", now + 9_000, now)
    assert peers.clock_skew == 9.0


def test_the_distance_is_that_of_the_last_entry() -> None:
    peers = Peers()
    assert peers.get("a") is None
    # The last entry was sent before the sender's first checkpoint.
    for checkpoint, entries, now, behind in ((32, 100, 5_000, 68), (128, 120, 6_000, 0), (0, 10, 7_000, 0)):
        peers.note("a", now, checkpoint, entries, now)
        peer = peers.get("a")
        assert peer is not None
        assert (peer.behind, peer.heard) == (behind, now)
