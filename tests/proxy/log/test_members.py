"""The living proxies by age; and what their entries show: clocks, and how far they have applied."""

from proxy.log.members import Member, Members, Peers
from schema.record import Home


def member(incarnation: str, revision: int) -> Member:
    return Member(incarnation, revision, (1,), "1.0")


def test_the_eldest_is_the_one_whose_key_was_made_first() -> None:
    members = Members()
    for each in (member("b", 20), member("c", 30), member("a", 10)):
        members.add(each)
    assert members.eldest == "a"
    assert [members.rank(name) for name in ("a", "b", "c", "unknown")] == [0, 1, 2, 3]
    members.gone("a")
    assert members.eldest == "b"
    assert members.rank("c") == 1
    assert "a" not in members
    assert "b" in members


def test_one_that_comes_twice_counts_once_and_by_its_newest_key() -> None:
    members = Members()
    members.add(member("a", 10))
    members.add(member("b", 20))
    members.add(member("a", 30))
    assert [each.incarnation for each in members] == ["b", "a"]
    members.gone("nobody")
    assert len(members) == 2


def test_a_member_is_found_by_name_and_named_with_its_host() -> None:
    members = Members()
    members.add(Member("a", 1, (1,), "1.0", home=Home("db-1", "0.0.0.0:2181")))
    members.add(Member("b", 2, (1,), "1.0"))
    assert [str(members.get(name)) for name in "abc"] == ["a (db-1 0.0.0.0:2181)", "b", "None"]


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
