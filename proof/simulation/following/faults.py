"""What happens to the processes that follow: killed, stopped, doubled, cut off, slow."""

from collections.abc import Callable, Sequence
from random import Random

from proof.simulation.etcd import Cluster
from proof.simulation.following.followers import Process, Service
from proof.simulation.nemesis import Fault
from proof.simulation.network import Network


class FollowFaults:
    """The faults of the services that run now, by name."""

    def __init__(self, cluster: Cluster, network: Network, services: Callable[[], Sequence[Service]]) -> None:
        self._cluster = cluster
        self._network = network
        self._services = services
        self._random: Random = cluster.world.random("faults of followers")

    @property
    def kinds(self) -> dict[str, Callable[[], Fault | None]]:
        """What to add to the nemesis."""
        return {
            "kill a follower": self._kill,
            "pause a follower": self._pause,
            "two followers": self._two,
            "a follower sleeps, and another takes over": self._overtake,
            "cut a follower from etcd": self._cut,
            "slow network of a follower": self._slow,
        }

    def _service(self) -> Service | None:
        services = [service for service in self._services() if service.living]
        return self._random.choice(services) if services else None

    def _process(self) -> Process | None:
        service = self._service()
        return None if service is None else self._random.choice(service.living)

    def _kill(self) -> Fault | None:
        """Again and again, at any moment of its work."""
        service = self._service()
        if service is None:
            return None
        seconds = self._random.choice((0.1, 0.5, 2.0))
        over = False

        def kill() -> None:
            if over:
                return
            service.kill()
            if service.is_wanted:
                service.start()
            self._cluster.host.call_later(self._random.expovariate(1 / seconds), kill)

        def end() -> None:
            nonlocal over
            over = True

        kill()
        return Fault("", f"{service.name}, each {seconds} s", end)

    def _pause(self) -> Fault | None:
        process = self._process()
        if process is None or process.host.paused:
            return None
        process.host.pause()
        return Fault("", process.name, process.host.resume)

    def _two(self) -> Fault | None:
        service = self._service()
        if service is None or not service.may_overlap:
            return None
        service.start()
        return Fault("", service.name, lambda: None)

    def _overtake(self) -> Fault | None:
        """The old one has requests under way, and more to send when it wakes."""
        service = self._service()
        if service is None or not service.may_overlap:
            return None
        process = self._random.choice(service.living)
        if process.host.paused:
            return None
        process.host.pause()
        service.start()
        return Fault("", service.name, process.host.resume)

    def _cut(self) -> Fault | None:
        service = self._service()
        if service is None:
            return None
        members = [member.name for member in self._cluster.members]
        if self._random.random() < 0.5:
            members = [self._random.choice(members)]
        way = self._random.randrange(3)
        pairs = [(service.name, member) for member in members] if way != 1 else []
        pairs += [(member, service.name) for member in members] if way != 2 else []
        self._network.cut(pairs)
        return Fault("", f"{service.name} and {', '.join(members)}", lambda: self._network.mend(pairs))

    def _slow(self) -> Fault | None:
        service = self._service()
        if service is None:
            return None
        name, seconds = service.name, self._random.choice((0.02, 0.2, 1.5))
        self._network.slow(name, seconds)
        return Fault("", f"{name} by {seconds} s", lambda: self._network.slow(name, 0.0))
