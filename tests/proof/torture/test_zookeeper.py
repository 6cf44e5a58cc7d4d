"""Three real ZooKeepers under the script of zketcd's faults."""

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest

from proof.history import History, Reply, Sync, check
from proof.torture import faults
from proof.torture.ensemble import Ensemble
from proof.torture.ensemble_faults import KINDS, NONE
from proof.torture.rounds import Judged
from proof.torture.torture import Options, torture
from proof.torture.zookeeper import ZooKeeper, is_no_promise

_PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \|$", re.MULTILINE)
_FAULTS = ("kill-leader", "isolate-leader")


def test_each_fault_has_a_counterpart_or_a_reason_why_not() -> None:
    assert not KINDS.keys() & NONE.keys()
    assert KINDS.keys() | NONE.keys() == faults.KINDS.keys()


def test_the_document_has_the_counterparts() -> None:
    section = _PAGE.read_text().partition("### Compared with ZooKeeper")[2].partition("\n## ")[0]
    counterparts = {name: kind.what for name, kind in KINDS.items()}
    assert dict(_ROW.findall(section)) == counterparts | {name: f"none: {why}" for name, why in NONE.items()}


@pytest.mark.parametrize(("seconds", "promised"), [(3.6, False), (3.4, True)])
def test_a_session_may_end_early_by_as_much_as_a_follower_serves_without_its_leader(
    seconds: float, promised: bool
) -> None:
    history = History()
    history.opened(0, 1, 6_000, "client1")
    history.reply(2, history.invoke(1, 1, Sync()), Reply(0, 1))
    history.expired(int(seconds * 1e9), 1)
    (violation,) = check(history)
    assert violation.rule == "lifetime"
    assert is_no_promise(violation, history.records) != promised


@pytest.mark.real
def test_a_round_is_right_and_the_faults_really_happen(tmp_path: Path) -> None:
    rounds: list[Judged] = []
    options = Options(
        seed=1,
        minutes=0.01,
        faults=_FAULTS,
        servers=3,
        clients=4,
        work_dir=tmp_path,
        keep_going=False,
        least=len(_FAULTS),
        holds=(4.0,),  # longer than followers wait for their leader
    )
    with Ensemble() as ensemble:
        make = partial(ZooKeeper, ensemble)
        totals = asyncio.run(torture(make, options, lambda judged, _lines: rounds.append(judged)))
    assert totals.violations == []
    assert {episode.fault for episode in totals.episodes} == set(_FAULTS)
    without = {episode.fault: episode.writes for episode in totals.episodes}
    assert without["isolate-leader"] > 2.0, "the leader was not cut off: syncLimit is 2.5 s"
    assert max(episode.client for episode in totals.episodes) > 0.2
    assert totals.operations > 100
