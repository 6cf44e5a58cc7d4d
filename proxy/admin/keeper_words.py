"""The four-letter words that ClickHouse Keeper has in addition to ZooKeeper's (its FourLetterCommand.cpp).

The answers to words about Keeper's own consensus say that etcd does that here.
"""

from collections.abc import Callable, Iterator

from codec.constants import KeeperFeature
from proxy.admin.facts import Facts
from proxy.state.ops.features import API_VERSION as KEEPER_API_VERSION

_ZOOKEEPER_ALONE = "0"  # KeeperApiVersion::ZOOKEEPER_COMPATIBLE
_NO_MEANING = {
    "rcvr": "nothing can be recovered by force: the state is in etcd, whose members recover by themselves "
    "or with `etcdctl snapshot restore`",
    "csnp": "Failed to schedule snapshot creation task. The state is in etcd: back it up with "
    "`etcdctl snapshot save`",
    "rqld": "Failed to send leadership request to leader. The eldest proxy is the leader, and writes do not"
    " pass through it; `etcdctl move-leader` moves etcd's",
    "clrs": "there are no caches to clear",
    "rcfg": "there is no list of servers to change: proxies come and go by themselves, and `etcdctl member`"
    " changes etcd's members",
}


class KeeperWords:
    """Keeper's own words by their names."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.words: dict[str, Callable[[], Iterator[str]]] = {
            "apiv": self._apiv,
            "ftfl": self._ftfl,
            "lgif": self._lgif,
            "rclc": self._rclc,
            **{word: lambda text=text: iter((f"{text}.\n",)) for word, text in _NO_MEANING.items()},  # type: ignore[misc]
        }

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
        status = self._facts.subject.etcd.status
        term = 0 if status is None else status.raft_term
        position = self._facts.subject.log.position
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
