"""Faults that are bugs of etcd, in worlds that have them (`--worlds etcd-bugs`)."""

from collections.abc import Callable
from functools import partial
from random import Random

from proof.simulation.etcd import Cluster

Begun = tuple[str, Callable[[], None]]  # a fault: what it does, for people; what ends it
LEAVE_OUT = "leave out events"
COMPACTION = "compaction loses events"
_OLD, _STALE = "old reads", "a stale member"
#: Linearizable reads are old.
OLD_READS = frozenset((_OLD, _STALE))


def bug_faults(cluster: Cluster, random: Random) -> dict[str, Callable[[], Begun | None]]:
    """The faults that etcd's bugs make, by name."""
    return {
        LEAVE_OUT: partial(_set, cluster, random, "leave_out", (0.05, 0.3)),
        "repeat events": partial(_set, cluster, random, "repeat", (0.1, 0.5)),
        "begin watches early": partial(_begin_early, cluster, random),
        COMPACTION: partial(_lose_at_compaction, cluster, random),
        _OLD: partial(_old_reads, cluster, random),
        _STALE: partial(_stale_member, cluster, random),
    }


def nothing() -> None:
    """Do nothing: there is nothing to undo."""


def _set(cluster: Cluster, random: Random, name: str, chances: tuple[float, ...]) -> Begun:
    chance = random.choice(chances)
    setattr(cluster.bugs, name, chance)
    return f"{chance}", lambda: setattr(cluster.bugs, name, 0.0)


def _begin_early(cluster: Cluster, random: Random) -> Begun:
    """Watches begin in the past; some break, so that there are new ones."""
    what, end = _set(cluster, random, "begin_early", (0.5, 1.0))
    cluster.break_streams()

    def again() -> None:
        cluster.break_streams()
        cluster.host.call_later(3.0, end)  # when they have begun again

    return what, again


def _lose_at_compaction(cluster: Cluster, random: Random) -> Begun | None:
    watches = list(cluster.watches)
    if not watches:
        return None
    watch = random.choice(watches)
    seconds = random.choice((0.2, 0.5, 2.0))
    watch.stalled_until = cluster.world.now + seconds

    def compact() -> None:
        if watch in cluster.watches:
            cluster.compact()
            watch.lose_pending()

    cluster.host.call_later(seconds * 0.99, compact)
    return f"of a watch of {watch.host.name}", nothing


def _old_reads(cluster: Cluster, random: Random) -> Begun:
    """A member that was paused, or all: their linearizable reads are old at times."""
    members = random.choice((cluster.members, [random.choice(cluster.members)]))
    cluster.bugs.old_read = random.choice((0.1, 0.5))
    for member in members:
        member.behind = random.choice((1, 5, 50))

    def end() -> None:
        for member in members:
            member.behind = 0

    return ", ".join(f"{member.name} by {member.behind}" for member in members), end


def _stale_member(cluster: Cluster, random: Random) -> Begun:
    """A leader was paused, and another one was elected: the reads and watches of the former stand still."""
    member = random.choice(cluster.members)
    seconds = random.choice((0.1, 0.5, 2.0))
    member.stands_at = cluster.store.revision
    for watch in cluster.watches:
        if watch.member is member:
            watch.stalled_until = cluster.world.now + seconds

    def end() -> None:
        member.stands_at = 0

    cluster.host.call_later(seconds, end)
    return f"{member.name} for {seconds} s", end
