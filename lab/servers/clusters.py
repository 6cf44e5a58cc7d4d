"""Several servers that are one: three members of a real etcd, three of a real ZooKeeper."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from lab.servers.etcd import EtcdServer
from lab.servers.ports import free_port
from lab.servers.waiting import wait_until
from lab.servers.zookeeper import SMALL_JVM, ZooKeeperServer

SIZE = 3

Relay = Callable[[int], int]
"""The port by which others reach one of these ports."""


class Member(EtcdServer):
    """One member of a cluster that is started as a whole."""

    def __init__(self, number: int, arguments: Sequence[str], version: str, relay: Relay) -> None:
        super().__init__(*arguments, version=version)
        self.member_name = f"member{number}"
        self.peer_url = f"http://127.0.0.1:{relay(self.peer_port)}"
        self.peers: Sequence[Member] = ()

    def command(self) -> Sequence[str]:
        """etcd's command line."""
        everybody = ",".join(f"{peer.member_name}={peer.peer_url}" for peer in self.peers)
        replaced = ("--name=", "--initial-cluster=", "--initial-advertise-peer-urls=")
        return [
            *(argument for argument in super().command() if not argument.startswith(replaced)),
            f"--name={self.member_name}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={everybody}",
        ]

    def is_leader(self) -> bool:
        """Whether this member leads the cluster now."""
        return self.alive and self.metric("etcd_server_is_leader") == 1


class Cluster:
    """All members; `endpoints` is for `--etcd`."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members

    @property
    def endpoints(self) -> str:
        """All client URLs."""
        return ",".join(member.endpoint for member in self.members)

    def leader(self) -> Member:
        """The member that leads; waits for an election."""
        members = self.members
        return wait_until(lambda: next((m for m in members if m.is_leader()), None), "a leader")  # type: ignore[return-value]

    def follower(self) -> Member:
        """A member that does not lead."""
        leader = self.leader()
        return next(member for member in self.members if member is not leader)


def _direct(port: int) -> int:
    return port


@contextmanager
def running_cluster(*arguments: str, version: str = "", relay: Relay = _direct) -> Iterator[Cluster]:
    """Start three members of etcd, each of this version and with these arguments as well, and end them.

    Members reach each other by what `relay` gives for their ports.
    """
    with ExitStack() as stack:
        members = [Member(number, arguments, version, relay) for number in range(SIZE)]
        for member in members:
            stack.callback(member.close)
            member.peers = members
        for member in members:
            member.launch()  # none serves before there is a quorum
        for member in members:
            member.wait_until_serving()
        yield Cluster(members)


@contextmanager
def running_ensemble(
    *,
    relay: Relay = _direct,
    tick_time: int = 1000,
    java_options: Sequence[str] = SMALL_JVM,
    system_properties: Mapping[str, str] | None = None,
) -> Iterator[list[ZooKeeperServer]]:
    """Start three ZooKeepers that serve together, and end them. The others as in `running_cluster`."""
    ports = {number: (free_port(), free_port()) for number in range(1, SIZE + 1)}
    relayed = {number: (relay(one), relay(two)) for number, (one, two) in ports.items()}
    with ExitStack() as stack:
        members = []
        for number in ports:
            addresses = {other: (ports if other == number else relayed)[other] for other in ports}
            settings = {
                f"server.{other}": f"127.0.0.1:{one}:{two}" for other, (one, two) in addresses.items()
            }
            # In ticks, which have seconds: a busy machine must not cost the quorum.
            settings |= {"initLimit": "30", "syncLimit": "15", "standaloneEnabled": "false"}
            member = ZooKeeperServer(
                settings=settings,
                tick_time=tick_time,
                max_client_connections=0,
                java_options=java_options,
                system_properties=system_properties,
            )
            stack.callback(member.close)
            member.data_dir.mkdir(exist_ok=True)
            (member.data_dir / "myid").write_text(str(number))
            member.launch()
            members.append(member)
        for member in members:
            member.wait_until_serving()
        yield members
