"""The four-letter words that ClickHouse Keeper has in addition to ZooKeeper's (its FourLetterCommand.cpp).

The answers to words about Keeper's own consensus say that etcd does that here.
"""

from collections.abc import Iterator

from codec.constants import KeeperFeature
from proxy.admin.facts import Facts
from proxy.state.ops.features import API_VERSION as KEEPER_API_VERSION

_ZOOKEEPER_ALONE = "0"  # KeeperApiVersion::ZOOKEEPER_COMPATIBLE


class KeeperAnswers:
    """The answers to Keeper's own words: a method for each, by its name."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def _apiv(self) -> Iterator[str]:
        """The same as the node /keeper/api_version, where that exists."""
        yield KEEPER_API_VERSION if self._facts.subject.features else _ZOOKEEPER_ALONE

    def _ftfl(self) -> Iterator[str]:
        """One line for each feature that /keeper/feature_flags can name."""
        for feature in KeeperFeature:
            yield f"{feature.name.lower()}\t{int(feature in self._facts.subject.features)}\n"

    def _rclc(self) -> Iterator[str]:
        """Keeper adds up the sizes of its nodes anew; here they are always exact."""
        yield "ok"

    def _lgif(self) -> Iterator[str]:
        """The log as this proxy knows it: indexes are etcd revisions, terms those of etcd's raft."""
        status = self._facts.subject.source.etcd_status()
        term = 0 if status is None else status.raft_term
        position = self._facts.subject.log_status().position
        last = max(position, 0 if status is None else status.revision)
        figures = {
            "first_log_idx": 1,
            "first_log_term": 1,
            "last_log_idx": last,
            "last_log_term": term,
            "last_committed_log_idx": position,
            "leader_committed_log_idx": last,
            "target_committed_log_idx": last,
            "last_snapshot_idx": 0,
        }
        for name, value in figures.items():
            yield f"{name}\t{value}\n"

    # What has no meaning here.

    def _rcvr(self) -> Iterator[str]:
        yield "nothing can be recovered by force: the state is in etcd, whose members recover by themselves "
        yield "or with `etcdutl snapshot restore` (before etcd 3.5: etcdctl).\n"

    def _csnp(self) -> Iterator[str]:
        yield "Failed to schedule snapshot creation task. The state is in etcd: back it up with "
        yield "`etcdctl snapshot save`.\n"

    def _rqld(self) -> Iterator[str]:
        yield "Failed to send leadership request to leader. The eldest proxy is the leader, and writes do not"
        yield " pass through it; `etcdctl move-leader` moves etcd's.\n"

    def _clrs(self) -> Iterator[str]:
        yield "there are no caches to clear.\n"

    def _rcfg(self) -> Iterator[str]:
        yield "there is no list of servers to change: proxies come and go by themselves, and `etcdctl member`"
        yield " changes etcd's members.\n"
