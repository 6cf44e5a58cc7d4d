"""A real etcd of three members."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lab.servers import EtcdServer, wait_until

_SIZE = 3


class Member(EtcdServer):
    """One member of a cluster that is started as a whole."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.member_name = f"member{number}"
        self.peers: Sequence[Member] = ()

    @property
    def peer_url(self) -> str:
        """Where the other members find this one."""
        return f"http://127.0.0.1:{self.peer_port}"

    def command(self) -> Sequence[str]:
        """etcd's command line."""
        everybody = ",".join(f"{peer.member_name}={peer.peer_url}" for peer in self.peers)
        replaced = ("--name=", "--initial-cluster=")
        return [
            *(argument for argument in super().command() if not argument.startswith(replaced)),
            f"--name={self.member_name}",
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


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Start three members, and end them."""
    with ExitStack() as stack:
        members = [Member(number) for number in range(_SIZE)]
        for member in members:
            stack.callback(member.close)
            member.peers = members
        for member in members:
            member.launch()  # none serves before there is a quorum
        for member in members:
            member.wait_until_serving()
        yield Cluster(members)
