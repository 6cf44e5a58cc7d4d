"""What must hold of the queue of distributed DDL whatever fails. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from examples.invariants import Violation

INVARIANTS = {
    "ddl-finished": "A DDL query that was told as done is finished on every host.",
    "ddl-once": "Every host executes every DDL query once, in the order of the queue.",
}


class DdlJudge:
    """What happened to the queue. Every method raises Violation with the name of the invariant."""

    def __init__(self) -> None:
        self._executed: defaultdict[str, list[str]] = defaultdict(list)

    def executed(self, host: str, query: str) -> None:
        """A host executed a query of the DDL queue."""
        done = self._executed[host]
        if done and query <= done[-1]:
            raise Violation("ddl-once", f"{host} executes {query} after {done[-1]}")
        done.append(query)

    def told(self, query: str, hosts: Collection[str], finished: Collection[str]) -> None:
        """A DDL query is told as done. `finished`: the hosts that ZooKeeper lists."""
        for host in hosts:
            if host not in finished or query not in self._executed[host]:
                raise Violation("ddl-finished", f"{query} is told as done; {host} has not executed it")

    def at_end(self, queries: Collection[str], hosts: Iterable[str]) -> None:
        """At the end: all queries that were ever in the queue."""
        for host in hosts:
            if self._executed[host] != sorted(queries):
                wrong = sorted(set(queries).symmetric_difference(self._executed[host]))
                raise Violation(
                    "ddl-once", f"{host} has not executed exactly the queries; they differ by {wrong}"
                )
