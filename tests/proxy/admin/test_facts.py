"""The facts about a server, of a subject that is not one."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from codec.constants import KeeperOpCode, OpCode
from proxy.admin.facts import OPERATIONS, Facts
from proxy.log.living import LivingProxies, LivingProxy
from proxy.log.status import Freshness
from proxy.state.ops import EXTENDED
from proxy.state.pause import Lengths, Pause
from proxy.support.latency import ConnectionLatency, Latency
from schema.followed import Lag
from schema.record import Home, ProxyValue
from tests.proxy.admin.subjects import CONFIG, Connection, LogFacts, connected, subject_of
from tests.table import one_by_one

MS = 1_000_000


def _facts(**values: object) -> Facts:
    return Facts(subject_of(**values))


@pytest.mark.parametrize("serving", [True, False])
@pytest.mark.parametrize("in_touch", [True, False])
def test_ready_needs_both_a_tree_and_etcd_and_read_only_is_a_wish_and_a_silent_etcd(
    serving: bool, in_touch: bool
) -> None:
    log = LogFacts(freshness=Freshness.RECENT if in_touch else Freshness.OLD, why="" if in_touch else "late")
    for wished in (True, False):
        config = replace(CONFIG, read_only_mode=wished)
        facts = _facts(handshake=SimpleNamespace(is_open=serving), replicated=log, config=config)
        assert facts.ready is (serving and in_touch)
        assert facts.read_only is (serving and wished and not in_touch)
        assert facts.takes_new_clients is (serving and (wished or in_touch))
        assert facts.state == ("read-only" if facts.read_only else "standalone")


@pytest.mark.parametrize("wished", [True, False])
def test_a_tree_that_follows_another_one(wished: bool) -> None:
    """It is ready for those that it can serve, and says how late it is."""
    log = LogFacts(is_copy=True, is_registered=False, lag=Lag(1_000, 7))
    facts = _facts(
        handshake=SimpleNamespace(is_open=wished),
        replicated=log,
        config=replace(CONFIG, read_only_mode=wished),
        clock=SimpleNamespace(time=lambda: 3.5),
    )
    assert (facts.ready, facts.read_only, facts.takes_new_clients) == (wished, wished, wished)
    assert ("follows another one" in facts.why_not_ready) is not wished
    assert facts.copy() == {"copy_zxid": 0, "copy_behind": 7, "copy_lag_ms": 2500}
    log.lag = None  # the follower has said nothing yet
    assert facts.copy() == {"copy_zxid": 0}
    log.is_copy = False
    assert facts.copy() == {}
    assert not facts.ready


def test_a_wrong_state_is_neither_ready_nor_read_only() -> None:
    config = replace(CONFIG, read_only_mode=True)
    facts = _facts(replicated=LogFacts(freshness=Freshness.WRONG, why="it is wrong"), config=config)
    assert not facts.read_only
    assert not facts.takes_new_clients
    assert facts.why_not_ready == "it is wrong"


def test_a_proxy_whose_clients_wait_for_what_it_applies_is_no_place_for_new_ones() -> None:
    facts = _facts(replicated=LogFacts(is_behind=True))
    assert not facts.takes_new_clients
    assert "clients wait" in facts.why_not_ready


@pytest.mark.parametrize("has_served", [True, False])
def test_a_proxy_whose_standby_is_silent_says_so_also_before_it_has_served(has_served: bool) -> None:
    log = LogFacts(freshness=Freshness.OLD, why="no standby", standby_silence=20.0, is_alone=True)
    facts = _facts(handshake=SimpleNamespace(is_open=has_served), replicated=log)
    assert facts.why_not_ready == "no standby"


def test_a_proxy_that_cannot_register_is_not_ready_and_says_why() -> None:
    assert _facts().why_not_ready == ""
    facts = _facts(replicated=LogFacts(is_registered=False))
    assert not facts.ready
    assert not facts.takes_new_clients
    assert "not registered" in facts.why_not_ready
    assert "quota" not in facts.why_not_ready
    assert "quota is used up" in _facts(replicated=LogFacts(is_registered=False, is_full=True)).why_not_ready
    # Its sessions and reads still work: another proxy would not do better.
    assert _facts(replicated=LogFacts(is_full=True)).ready


@one_by_one(
    ("proxies", "state", "leads"),
    [([], "standalone", None), (["a1"], "standalone", None), (["a1", "b"], "leader", True),
     (["b", "a1"], "follower", False), (["b", "c"], "follower", False)],
)  # fmt: skip
def test_the_eldest_of_several_proxies_is_the_leader(
    proxies: list[str], state: str, leads: bool | None
) -> None:
    living = LivingProxies()
    for age, name in enumerate(proxies):
        living.add(LivingProxy(name, age, ProxyValue((1,), "", home=Home(host=f"host-{name}"))))
    facts = _facts(replicated=LogFacts(living=living))
    monitor, leader = facts.monitor(), facts.leader()
    assert facts.state == monitor["server_state"] == facts.statistics()["server_state"] == state
    assert monitor.get("synced_followers") == (len(proxies) - 1 if leads else None)
    assert leader.get("is_leader") is leads
    assert leader.get("leader_ip") == (f"host-{proxies[0]}" if leads is not None else None)


class _Counted(Pause):
    calls = 0

    def __call__(self) -> None:
        self.calls += 1


def test_resets_of_connections_and_of_the_server() -> None:
    latency = ConnectionLatency(Latency(EXTENDED.updates))
    connections = connected(Connection(latency, received=3, sent=4), Connection(latency, received=1, sent=0))
    facts = _facts(connections=connections)
    counters = facts.subject.counters
    counters.received, counters.sent = 14, 24
    pause = _Counted(Lengths(every=1))
    facts.clients.reset_connections(pause)
    assert pause.calls == 2, "very many are not reset at a stretch"
    assert facts.packets() == (14, 24)
    assert [(one.inbound.count, one.outbound.sent) for one in connections] == [(0, 0), (0, 0)]
    counters.connect_requests = 5
    facts.subject.latency.by_opcode[3].note(3 * MS, 4)  # exists
    facts.reset_server()
    counters.connect_requests += 2
    assert facts.packets() == (0, 0)
    monitor = facts.monitor()
    assert (monitor["connection_request_count"], monitor["cnt_readlatency"]) == (2, 0)


def test_values_of_the_log_and_times_in_whole_milliseconds_are_in_mntr() -> None:
    facts = _facts()
    facts.subject.log_status().stats.sent_entries = 3
    facts.subject.latency.by_opcode[3].note(3 * MS, 4)  # exists
    monitor = facts.monitor()
    assert (monitor["log_position"], monitor["log_entries_appended"]) == (7, 3)
    assert (monitor["cnt_readlatency"], monitor["sum_readlatency"]) == (4, 12)
    assert monitor["p99_readlatency"] == 4  # the upper end of the bucket


def test_operations_are_counted_as_zookeeper_counts_them() -> None:
    """It counts failed reads and failed multis, but no other write that failed."""
    facts = _facts()
    latency = facts.subject.latency
    connection = ConnectionLatency(latency)
    for opcode in (OpCode.CREATE, OpCode.CREATE_TTL, KeeperOpCode.CREATE_IF_NOT_EXISTS, OpCode.GET_DATA):
        connection.note(opcode, 2, 1, 1, 0, MS)
    connection.note_refused(OpCode.CREATE)
    monitor = facts.monitor()
    counted = {name: monitor[name] for name in ("op_count_create", "op_count_get_data", "op_count_total")}
    assert counted == {"op_count_create": 5, "op_count_get_data": 2, "op_count_total": 7}
    facts.reset_server()
    connection.note(OpCode.GET_DATA, 1, 1, 1, 0, MS)
    monitor = facts.monitor()
    assert (monitor["op_count_create"], monitor["op_count_total"]) == (0, 1)


def test_each_operation_has_a_counter() -> None:
    counted = [opcode for opcodes in OPERATIONS.values() for opcode in opcodes]
    assert len(counted) == len(set(counted))
    # A reconfig is always refused; AUTH and SASL are no operations of FinalRequestProcessor.
    assert {*EXTENDED.reads, *EXTENDED.writes} - set(counted) <= {OpCode.RECONFIG}
