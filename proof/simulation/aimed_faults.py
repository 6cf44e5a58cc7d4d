"""Faults that wait for a moment that chance seldom meets: between two entries, amid a long write."""

from collections.abc import Sequence
from random import Random

from proof.simulation.bug_faults import Begun
from proof.simulation.etcd import Cluster
from proof.simulation.oracle import Oracle
from proof.simulation.proxies import PREFIX, Proxy
from schema.keys import Keyspace

_LOST = 0.3  # of the writes to etcd, so that entries come before their predecessors
_LOOK = 0.001  # seconds between two looks whether a long write is on its way


class AimedFaults:
    """The faults of one cluster that need a certain moment."""

    def __init__(self, cluster: Cluster, oracle: Oracle, proxies: Sequence[Proxy], random: Random) -> None:
        self._cluster = cluster
        self._oracle = oracle
        self._proxies = proxies
        self._random = random

    def end_in_gap(self) -> Begun:
        """A proxy of which an entry has come before its predecessor is killed, or stands still, at once."""
        cluster, listeners = self._cluster, self._oracle.listeners
        stopped: list[Proxy] = []
        stands_still = self._random.random() < 0.3

        def stop(proxy: Proxy) -> None:
            if proxy.alive and proxy.host is not None and not proxy.host.paused:
                cluster.world.trace(
                    "nemesis", f"{proxy.name} {'pauses' if stands_still else 'dies'} in a gap"
                )
                stopped.append(proxy)
                if stands_still:
                    proxy.pause()
                else:
                    proxy.kill()

        def gap(incarnation: str) -> None:
            for proxy in self._proxies:
                if proxy.server is not None and proxy.server.log.incarnation == incarnation and not stopped:
                    cluster.host.call_soon(stop, proxy)

        def end() -> None:
            cluster.troubles.lose_request = 0.0
            listeners.gap = _ignore
            for proxy in stopped:
                if proxy.alive:
                    proxy.resume()
                else:
                    proxy.start()

        cluster.troubles.lose_request = _LOST
        listeners.gap = gap
        return "by a pause" if stands_still else "by a kill", end

    def no_carry_over(self) -> Begun:
        """A proxy registers again and again, and none of its entries comes to etcd."""
        proxy, keys, troubles = self._random.choice(self._proxies), Keyspace(PREFIX), self._cluster.troubles

        def is_lost(request: bytes) -> bool:
            server = proxy.server
            return server is not None and keys.entries_of(server.log.incarnation)[0] in request

        def end() -> None:
            troubles.lose_keep_alive = 0.0
            troubles.losses.remove(is_lost)

        troubles.losses.append(is_lost)
        troubles.lose_keep_alive = 1.0
        return proxy.name, end

    def reload_in_write(self) -> Begun:
        """Proxies find their states wrong while a long write is partially applied."""
        cluster = self._cluster
        over = False

        def look() -> None:
            if over:
                return
            for proxy in self._proxies:
                server, host = proxy.server, proxy.host
                if (
                    proxy.serving
                    and server is not None
                    and host is not None
                    and not server.log.applier.worker.is_whole
                ):
                    host.call_soon(server.log.follower.distrust)
                    cluster.host.call_later(1.0, look)
                    return
            cluster.host.call_later(_LOOK, look)

        def end() -> None:
            nonlocal over
            over = True

        look()
        return "", end


def _ignore(_incarnation: str) -> None:
    """Do nothing: no fault waits for a gap."""
