"""Each fault really happens, and everything works again when it has ended.

Faults are begun and ended here one by one. `test_torture.py` judges a whole round under others.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.client.blocking import Client
from lab.servers import wait_until
from lab.servers.operator import etcdctl
from lab.servers.relay import Quality, Way
from proof.torture.acts import Fault
from proof.torture.cluster import Cluster, Member
from proof.torture.faults import KINDS, impossible, mend
from proof.torture.host import abilities
from tests.proof.torture import test_maintenance, test_torture

_QUOTA = 32 << 20  # bytes: full within seconds
_AHEAD = 3.0  # seconds: less than any jump of a clock


class _Case(NamedTuple):
    """A fault that lasts."""

    cluster: Cluster
    fault: Fault
    pids: set[int]
    """Of etcd's members, before it."""
    said: Callable[[], str]
    """What the proxy has logged since."""
    ways: dict[Way, Quality]
    """Those that have changed since."""

    @property
    def member(self) -> Member:
        """The one that it is about."""
        return next(each for each in self.cluster.members if self.fault.what.startswith(each.host))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, small_disks=not abilities().disks, quota=_QUOTA) as made:
        yield made


@pytest.fixture
def ways(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[Way, Quality]:
    ways: dict[Way, Quality] = {}
    change = cluster.relays.change

    def changed(qualities: dict[Way, Quality]) -> None:
        change(qualities)
        ways.update(qualities)

    monkeypatch.setattr(cluster.relays, "change", changed)
    return ways


def _pids(cluster: Cluster) -> set[int]:
    return {member.pid for member in cluster.members if member.alive}


def _members_are_down(count: int) -> Callable[[_Case], bool]:
    return lambda case: len(_pids(case.cluster)) == len(case.cluster.members) - count


def _proxy_is_down(case: _Case) -> bool:
    return not case.cluster.proxies[0].alive


def _another_leads(case: _Case) -> bool:
    return any(member.is_leader() for member in case.cluster.members if member is not case.member)


def _leader_stands_still(case: _Case) -> bool:
    return Path(f"/proc/{case.member.pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def _links_differ(case: _Case) -> bool:
    return any(quality != Quality() for quality in case.ways.values())


def _etcd_is_full(case: _Case) -> bool:
    return "NOSPACE" in etcdctl(case.cluster.members[0], "alarm", "list")


def _a_disk_is_full(case: _Case) -> bool:
    return any(shutil.disk_usage(member.data_dir).free == 0 for member in case.cluster.members)


def _the_date_is_wrong(case: _Case) -> bool:
    with Client(case.cluster.proxies[0].port) as client:  # a session that opens is logged
        client.close()
    # Another thread writes the log, so that of this session may come later than its end.
    dates = (
        datetime.fromisoformat(date) for date in re.findall(r"^(\S+ \S+),\d{3} ", case.said(), re.MULTILINE)
    )
    return any(abs((datetime.now() - date).total_seconds()) > _AHEAD for date in dates)


def _certificates_are_refused(case: _Case) -> bool:
    return "certificate" in case.said()


def _all_have_restarted(case: _Case) -> bool:
    now = _pids(case.cluster)
    return len(now) == len(case.cluster.members) and now.isdisjoint(case.pids)


_EFFECTS: dict[str, Callable[[_Case], bool]] = {
    "kill-proxy": _proxy_is_down,
    "restart-proxy": _proxy_is_down,
    "kill-all-proxies": _proxy_is_down,
    "kill-leader": _members_are_down(1),
    "no-majority": _members_are_down(2),
    "isolate-leader": _another_leads,
    "leader-one-way": _another_leads,
    "cut-etcd-one-way": _links_differ,
    "cut-member": _links_differ,
    "cut-clients": _links_differ,
    "slow-etcd-link": _links_differ,
    "slow-peer-links": _links_differ,
    "slow-client-links": _links_differ,
    "slow-leader": _leader_stands_still,
    "no-space": _etcd_is_full,
    "full-disk": _a_disk_is_full,
    "certificates": _certificates_are_refused,
    "rolling-restart": _all_have_restarted,
    "clock-jumps": _the_date_is_wrong,  # last, since a process sees a second later that it is right again
}


def test_each_fault_has_a_test() -> None:
    assert _EFFECTS.keys() | {*test_torture.FAULTS, *test_maintenance.FAULTS} == KINDS.keys()


@pytest.mark.real
@pytest.mark.parametrize("kind", list(_EFFECTS))
def test_a_fault_happens_and_ends(cluster: Cluster, ways: dict[Way, Quality], kind: str) -> None:
    if reason := impossible(abilities()).get(kind):
        pytest.skip(reason)
    pids, said = _pids(cluster), cluster.proxies[0].messages_from_now()
    fault = KINDS[kind].begin(cluster, random.Random(1))
    try:
        case = _Case(cluster, fault, pids, said, ways)
        wait_until(lambda: _EFFECTS[kind](case), f"{kind} happens", timeout=60)
    finally:
        fault.end()
    mend(cluster)
    assert set(ways.values()) <= {Quality()}
    wait_until(lambda: all(member.serves() for member in cluster.members), "etcd serves", timeout=60)
    wait_until(lambda: test_maintenance.creates(cluster.ports["proxy1"], "/works"), "writes", timeout=60)
    assert not etcdctl(cluster.members[0], "alarm", "list")
