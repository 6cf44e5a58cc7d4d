"""A short run on real processes: nothing is wrong, and a mistake would be seen."""

import asyncio

import pytest

from proof.history.records import Disconnected, Event, Invoked, Replied
from proof.torture.cluster import Cluster
from proof.torture.rounds import Judged
from proof.torture.torture import Options, Totals, torture

pytestmark = pytest.mark.real

FAULTS = (
    *("kill-proxy", "pause-proxy", "pause-leader", "kill-etcd", "cut-etcd", "compaction"),
    *("reset-connections", "defrag", "move-leader", "replace-member", "upgrade"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Totals, Judged]:
    """One round with each of the faults."""
    rounds: list[Judged] = []
    options = Options(
        seed=1,
        minutes=0.01,
        faults=FAULTS,
        servers=2,
        clients=3,
        work_dir=tmp_path_factory.mktemp("torture"),
        keep_going=False,
        least=len(FAULTS),
        holds=(1.0,),
    )
    with Cluster(options.servers) as cluster:
        totals = asyncio.run(torture(cluster, options, lambda judged, _lines: rounds.append(judged)))
    (judged,) = rounds
    return totals, judged


def test_no_promise_is_broken(run: tuple[Totals, Judged]) -> None:
    totals, _ = run
    assert totals.violations == []
    assert totals.unsettled == 0


def test_the_faults_and_what_clients_do_really_happened(run: tuple[Totals, Judged]) -> None:
    totals, judged = run
    assert {episode.fault for episode in totals.episodes} == set(FAULTS)
    assert all(episode.worked >= episode.ended >= episode.began + 1.0 for episode in totals.episodes)
    assert max(episode.client for episode in totals.episodes) > 0.5, "nobody had to wait"
    assert totals.operations > 300
    assert totals.records == len(judged.history)
    kinds = {type(record) for record in judged.history.records}
    assert {Disconnected, Event, Invoked, Replied} <= kinds
    requests = {type(record.request).__name__ for record in judged.history.records if type(record) is Invoked}
    assert {"Create", "SetData", "Multi", "Sync", "GetData", "CloseSession"} <= requests
