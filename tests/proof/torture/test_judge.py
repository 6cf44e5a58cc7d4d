"""Findings that the checker of histories cannot have: against the log, the other trees, and the clock."""

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proof.history import Create, Exists, GetData, History, Reply, SetData
from proof.history.records import CREATED, Request
from proof.simulation.exactly_once import Logged
from proof.simulation.loads import Home, Loads
from proof.simulation.oracle import Done, Oracle
from proof.simulation.packets import asked
from proof.torture.judge import LEASE, LOADED, Acknowledged, Exceptions, Verdict, judge
from proof.torture.real import RealClock
from proof.torture.zketcd import loads_of
from tests.proxy.log.proxies import Proxy, answered, until

_SESSION = 5
_SECOND = 1_000_000_000
_STALENESS = 15.0
_WRITE = SetData("/r/a", b"1")
_READ = GetData("/r/a")
NOTHING_KNOWN = Exceptions()


@pytest.fixture
def oracle() -> Oracle:
    return Oracle(RealClock(1), 0, pytest.fail)


def _answer(zxid: int, *, read: bool = False, time: float = 100.0) -> Acknowledged:
    return Acknowledged(time, _SESSION, GetData("/r/a") if read else _WRITE, Reply(zxid=zxid), 6.0)


def _verdict(
    oracle: Oracle,
    *answers: Acknowledged,
    history: History | None = None,
    exceptions: Exceptions = NOTHING_KNOWN,
) -> Verdict:
    return judge(
        history or History(), oracle, answers, exceptions=exceptions, settle=True, max_staleness=_STALENESS
    )


def test_a_read_that_is_too_old_is_found(oracle: Oracle) -> None:
    oracle.times, oracle.zxids = [0.0, 50.0, 90.0], [1, 2, 3]
    assert _verdict(oracle, _answer(2, read=True)).violations == []
    (found,) = _verdict(oracle, _answer(1, read=True)).violations
    assert found.startswith("staleness: ")


def _ended_early(*sessions: int, at: int = 2 * _SECOND, request: Request = _READ) -> History:
    """Sessions with timeouts of 6 s, whose last requests at 1 s were answered."""
    history = History()
    for place, session in enumerate(sessions):
        history.opened(place, session, timeout_ms=6_000)
        call = history.invoke(_SECOND, session, request)
        error = -101 if isinstance(request, GetData) else 0
        history.reply(_SECOND + 1, call, Reply(error, zxid=1 + place, path=None if error else "/a"))
    for session in sessions:
        history.expired(at, session)
    return history


def test_an_early_end_is_set_aside_only_for_a_session_whose_proxy_lost_its_lease(oracle: Oracle) -> None:
    (found,) = _verdict(oracle, history=_ended_early(_SESSION)).violations
    assert "lifetime" in found
    orphans = Exceptions(orphans={_SESSION}, lease=5.0)
    verdict = _verdict(oracle, history=_ended_early(_SESSION), exceptions=orphans)
    assert (verdict.violations, verdict.aside) == ([], {LEASE: 1})
    # One of another session in the same round is found. The number begins with the same digit.
    verdict = _verdict(oracle, history=_ended_early(_SESSION, 0x5A), exceptions=orphans)
    assert verdict.aside == {LEASE: 1}
    (found,) = verdict.violations
    assert "session 0x5a was over" in found


@pytest.mark.parametrize(("lease", "at", "is_found"), [(5.0, 1.9, True), (5.0, 2.1, False), (2.0, 4.9, True)])
def test_a_session_does_not_end_earlier_than_its_last_write_and_the_lease_allow(
    oracle: Oracle, lease: float, at: float, is_found: bool
) -> None:
    """Its proxy had the lease when it wrote."""
    history = _ended_early(_SESSION, at=int(at * _SECOND), request=Create("/a"))
    oracle.done[1] = Done(_SESSION, 1, 0)
    verdict = _verdict(oracle, history=history, exceptions=Exceptions(orphans={_SESSION}, lease=lease))
    assert (len(verdict.violations), verdict.aside) == ((1, {}) if is_found else (0, {LEASE: 1}))


@pytest.mark.parametrize(("home", "is_found"), [("proxy1", False), ("proxy2", True)])
def test_events_of_a_state_are_set_aside_only_where_it_was_loaded(home: str, *, is_found: bool) -> None:
    """A session with a watch gets an event of a change that the history does not have."""
    history = History()
    history.opened(0, _SESSION)
    call = history.invoke(1, _SESSION, Exists("/r/a", watch=True))
    history.reply(2, call, Reply(-101, zxid=7))
    history.event(3 * _SECOND, _SESSION, CREATED, "/r/a", 9)
    exceptions = Exceptions(loads=Loads({"proxy1": {9}, "proxy2": {20}}, {_SESSION: [Home(0, home)]}))
    verdict = _verdict(Oracle(RealClock(1), 0, pytest.fail), history=history, exceptions=exceptions)
    assert ["watch without change" in found for found in verdict.violations] == [True] * is_found
    assert verdict.aside == ({} if is_found else {LOADED: 1})


async def test_what_a_proxy_has_loaded_is_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """The words that the proxy writes are those that are looked for."""
    caplog.set_level("INFO")
    proxy = await Proxy(FakeEtcdClient(FakeEtcd())).start()
    await answered([proxy.open(1), proxy.create(1, "/x")])
    assert loads_of(caplog.text) == set()
    proxy.log.follower.distrust()
    await until(lambda: proxy.log.stats.reloads == 1)
    assert loads_of(caplog.text) == {proxy.log.machine.zxid}
    await proxy.stop()


def test_an_entry_that_is_seen_late_counts_from_when_others_saw_what_came_behind_it(oracle: Oracle) -> None:
    """The observer's watch was broken; meanwhile a client saw a later state."""
    history = History()
    history.opened(0, _SESSION)
    lost = history.invoke(1 * _SECOND, _SESSION, _WRITE)
    history.lost(2 * _SECOND, lost)
    history.attached(2 * _SECOND + 1, _SESSION)
    call = history.invoke(3 * _SECOND, _SESSION, GetData("/r/a"))
    history.reply(3 * _SECOND + 1, call, Reply(-101, zxid=9))
    write = asked(_WRITE)
    oracle.writes[_SESSION] = [Logged(5.0, 7, write.opcode, write.body, -101, b"")]
    assert _verdict(oracle, history=history).violations == []
