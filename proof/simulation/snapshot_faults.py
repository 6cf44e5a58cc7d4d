"""Faults of snapshots: requested at any time, writers that die, pages that are lost or damaged."""

from collections.abc import Sequence
from random import Random

from proof.simulation.bug_faults import Begun, nothing
from proof.simulation.etcd import Cluster
from proof.simulation.proxies import PREFIX, Proxy
from proof.simulation.world import Host
from proxy.etcd.model import Delete, EtcdError, Get, Put, Txn
from schema.keys import Keyspace
from schema.record import decode_record


class SnapshotFaults:
    """The faults of one cluster's snapshots."""

    def __init__(self, cluster: Cluster, proxies: Sequence[Proxy], random: Random) -> None:
        self._cluster = cluster
        self._proxies = proxies
        self._random = random
        self._damaged: set[str] = set()

    def want(self) -> Begun:
        """Ask most proxies for a snapshot."""
        for proxy in self._proxies:
            if proxy.serving and proxy.server is not None and self._random.random() < 0.7:
                proxy.server.snapshots.want()
        return "", nothing

    def kill_writers(self) -> Begun:
        """Kill each process that writes a snapshot, after some time."""
        rng, cluster = self._random, self._cluster

        def begun(proxy: Proxy, host: Host) -> None:
            after = rng.random() * rng.choice((0.02, 0.1, 0.5))

            def end() -> None:
                if not host.dead and host in proxy.writers:
                    cluster.world.trace("nemesis", f"the snapshot writer of {proxy.name} dies")
                    host.on_kill()
                    proxy.writers.pop(host, None)
                    host.kill()

            cluster.host.call_later(after, end)

        for proxy in self._proxies:
            proxy.on_writer = begun

        def end() -> None:
            for proxy in self._proxies:
                proxy.on_writer = lambda _proxy, _host: None

        self.want()
        return "", end

    def damage(self) -> str:
        """Damage a page of the current snapshot; which, for people. "" if there is none that may be damaged.

        Never of both snapshots: the previous one has to serve then.
        """
        keys, store = Keyspace(PREFIX), self._cluster.store
        found = store.range(Get(keys.tree)).kvs
        record = decode_record(found[0].value) if found else None
        if record is None or record.current is None or record.previous is None:
            return ""
        current, previous = record.current.name, record.previous.name
        if {current, previous} & self._damaged:
            return ""
        pages = store.range(Get(*keys.snapshot(current))).kvs
        page = self._random.choice(pages)
        at = self._random.randrange(len(page.value))
        flipped = bytes(
            (*page.value[:at], page.value[at] ^ 1 << self._random.randrange(8), *page.value[at + 1 :])
        )
        try:
            store.txn(Txn((), (Put(page.key, flipped) if self._random.random() < 0.5 else Delete(page.key),)))
        except EtcdError:  # it is full
            return ""
        self._damaged.add(current)
        return page.key.decode()
