"""Judges what clients are answered: each answer by the log and its age, and at the end the history."""

from collections import Counter
from collections.abc import Callable, Sequence

from codec import client as zk
from proof.history import History, Reply, check
from proof.history.records import (
    Create,
    Delete,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Multi,
    Record,
    Request,
    SetData,
    Violation,
)
from proof.simulation.acl_reads import AclReads
from proof.simulation.clients import Client
from proof.simulation.exactly_once import Logged, settled
from proof.simulation.expiry import ExpiryJudge
from proof.simulation.loads import Home, Loads
from proof.simulation.oracle import Oracle
from proof.simulation.packets import Look
from proof.simulation.wrong_servers import WrongServers

_DRIFT = 1e-3  # seconds in a second by which clocks of hosts may differ
STALENESS_TOLERANCE = 5.0  # seconds: how often etcd is asked and the answer looked at, and a slow network
OF_A_LOAD = "watch events of a state that was loaded anew"
EARLY_END = "ends of sessions that did not count from their clients' answers"
DECEIVED = "what sessions saw that got answers of a wrong state"


class Answers:
    """Judges the answers of one world."""

    def __init__(
        self,
        oracle: Oracle,
        acl_reads: AclReads,
        wrong_servers: WrongServers,
        max_staleness: float,
        violate: Callable[[str], None],
    ) -> None:
        self._oracle = oracle
        self._acl_reads = acl_reads
        self._wrong_servers = wrong_servers
        self._max_staleness = max_staleness
        self._violate = violate
        self._loads: dict[str, set[int]] = {}
        self._skipped: dict[int, list[tuple[int, int]]] = {}
        self._homes: dict[int, list[Home]] = {}
        #: Findings of the history checker that break no promise, by the reason.
        self.set_aside: Counter[str] = Counter()

    def loaded(self, server: str, before: int, zxid: int) -> None:
        """A server has loaded its state anew, and skipped what is between the two zxids."""
        self._loads.setdefault(server, set()).add(zxid)
        for session, homes in self._homes.items():
            if homes[-1].server == server:
                self._skipped.setdefault(session, []).append((before, zxid))

    def attached(self, client: Client, session: int, server: str) -> None:
        """A client begins or continues a session."""
        self._homes.setdefault(session, []).append(Home(int(client.world.now * 1e9), server))
        self._wrong_servers.attached(client.name, session, server)

    def replied(self, client: Client, session: int, request: Request | Look, answer: Reply) -> None:
        """A read must be recent, and as its node's ACL allows.

        An acknowledged write must be in the log, at its zxid, with this outcome.
        """
        deceived = self._wrong_servers.answered(client.name, session, client.came_at, client.history)
        if deceived or not answer.zxid:
            return
        if isinstance(request, Look):
            self._acl_reads.judge(request, answer)
        if isinstance(request, GetData | GetChildren | Exists | Look):
            # Until the proxy stops serving since its state is old, or one of the two closes the connection
            # because of a silence of the other's or of etcd's.
            stalest = self._max_staleness + client.timeout + STALENESS_TOLERANCE
            oldest = self._oracle.zxid_at(client.came_at - stalest)
            if answer.zxid < oldest:
                self._violate(
                    f"session {session:#x} reads a state of zxid {answer.zxid:#x}; {oldest:#x} was there"
                    f" {stalest:.0f} s before"
                )
            return
        if not isinstance(request, Create | Delete | SetData | Multi | zk.Request):
            return
        failed = answer.error or next((part.error for part in answer.parts or () if part.error), 0)
        done = self._oracle.done.get(answer.zxid)
        if not failed and (done is None or done.session != session or done.error):
            self._violate(
                f"session {session:#x} got an acknowledgement at zxid {answer.zxid:#x} for {request!r};"
                f" the log has {done!r} there"
            )

    def judge(self, history: History, writes: dict[int, list[Logged]], expiry: ExpiryJudge) -> None:
        """Judge the whole history."""
        whole = settled(history, writes, self._violate, self._oracle.ends)
        records = whole.records
        loads = Loads(self._loads, self._homes)
        for violation in check(whole, expiry.excused, _DRIFT, self._skipped):
            if loads.explain(violation, records):
                self.set_aside[OF_A_LOAD] += 1
            elif _ended_early(violation, records) in expiry.excused:
                self.set_aside[EARLY_END] += 1
            elif self._wrong_servers.excuses(violation, whole):
                self.set_aside[DECEIVED] += 1
            else:
                self._violate(f"history: {violation.rule}: {violation.message}")


def _ended_early(violation: Violation, records: Sequence[Record]) -> int | None:
    """The session whose end is too early, if that is what is wrong."""
    end = records[violation.records[-1]] if violation.rule == "lifetime" else None
    return end.session if isinstance(end, Expired) else None
