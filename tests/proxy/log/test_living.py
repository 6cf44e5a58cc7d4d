"""The living proxies by age; and what their entries show: clocks, and how far they have applied."""

from proxy.log.living import LivingProxies, LivingProxy, Peers, living_proxy
from schema.record import Home, PeerPort, ProxyValue

_VALUE = ProxyValue((1,), "1.0")


def proxy(incarnation: str, revision: int, value: ProxyValue = _VALUE) -> LivingProxy:
    return LivingProxy(incarnation, revision, value)


def test_the_eldest_is_the_one_whose_key_was_made_first() -> None:
    living = LivingProxies()
    for each in (proxy("b", 20), proxy("c", 30), proxy("a", 10)):
        living.add(each)
    assert living.eldest == "a"
    assert [living.rank(name) for name in ("a", "b", "c", "unknown")] == [0, 1, 2, 3]
    living.gone("a")
    assert living.eldest == "b"
    assert living.rank("c") == 1
    assert "a" not in living
    assert "b" in living


def test_a_command_that_visits_the_tree_does_nothing_for_the_others() -> None:
    living = LivingProxies()
    port = PeerPort("db-1:2182", b"secret")
    living.add(proxy("ctl.1", 10, _VALUE._replace(visits=True)))
    living.add(proxy("b", 20, _VALUE._replace(peer_port=port)))
    assert living.eldest == "b"
    assert living.rank("b") == 0
    assert living.combiner == living.get("b")
    living.gone("b")
    assert living.combiner is None


def test_one_that_comes_twice_counts_once_and_by_its_newest_key() -> None:
    living = LivingProxies()
    living.add(proxy("a", 10))
    living.add(proxy("b", 20))
    living.add(proxy("a", 30))
    assert [each.incarnation for each in living] == ["b", "a"]
    living.gone("nobody")
    assert len(living) == 2


def test_a_living_proxy_is_found_by_name_and_named_with_its_host() -> None:
    living = LivingProxies()
    living.add(proxy("a", 1, _VALUE._replace(home=Home("db-1", "0.0.0.0:2181"))))
    living.add(proxy("b", 2))
    assert [str(living.get(name)) for name in "abc"] == ["a (db-1 0.0.0.0:2181)", "b", "None"]


def test_of_a_proxy_whose_value_cannot_be_read_name_and_age_are_known() -> None:
    found = living_proxy("a", 7, b"{}")
    assert (str(found), found.revision, found.value.levels) == ("a", 7, ())
    assert found.value.version == "unknown: a proxy's value has schema version None; this release reads 2"


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


def test_a_clock_that_jumps_ahead_is_named_at_once() -> None:
    peers = Peers()
    named: list[tuple[str, int]] = []
    peers.clock_changed = lambda name, peer: named.append((name, peer.difference))
    heard(peers, "a", 1_000_000, 1_000_020)
    heard(peers, "b", 1_000_000, 1_000_020)
    assert named == []
    for _ in range(2):
        heard(peers, "a", 4_601_000, 1_001_000)
    assert named == [("a", -3_600_000)]
    for now in range(1_002_000, 1_020_000, 1_000):
        heard(peers, "a", now - 10, now)
    assert named[1:] == [("a", 10)]


def test_a_clock_that_jumps_back_is_named_after_two_periods() -> None:
    """A single old clock may be an entry that was late."""
    peers = Peers()
    named: list[tuple[str, int]] = []
    peers.clock_changed = lambda name, peer: named.append((name, peer.difference))
    heard(peers, "a", 10_000_000, 10_000_000)
    heard(peers, "a", 10_001_000, 10_060_000)
    heard(peers, "a", 10_060_500, 10_060_500)
    assert named == []
    for now in range(10_061_000, 10_074_000, 1_000):
        heard(peers, "a", now - 3_600_000, now)
    assert named == [("a", 3_600_000)]


def test_proxies_are_listed_with_their_clocks() -> None:
    peers = Peers()
    heard(peers, "a", 1_000, 3_000)
    assert [(name, peer.difference) for name, peer in peers] == [("a", 2_000)]


def test_the_distance_is_that_of_the_last_entry() -> None:
    peers = Peers()
    assert peers.get("a") is None
    # The last entry was sent before the sender's first checkpoint.
    for checkpoint, entries, now, behind in ((32, 100, 5_000, 68), (128, 120, 6_000, 0), (0, 10, 7_000, 0)):
        peers.note("a", now, checkpoint, entries, now)
        peer = peers.get("a")
        assert peer is not None
        assert (peer.behind, peer.heard) == (behind, now)
