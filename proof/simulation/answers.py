"""Judges what clients are answered: each answer by the log and its age, and at the end the history."""

import re
from collections.abc import Callable, Set

from lab.client import requests as zk
from proof.history import History, Reply, check
from proof.history.records import (
    Create,
    Delete,
    Event,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Request,
    SetData,
    Violation,
)
from proof.simulation.clients import Client
from proof.simulation.deceit import Deceit
from proof.simulation.exactly_once import Logged, settled
from proof.simulation.expiry import ExpiryJudge
from proof.simulation.oracle import Oracle

_DRIFT = 1e-3  # seconds in a second by which clocks of hosts may differ
_STALENESS_TOLERANCE = 5.0  # seconds: how often etcd is asked and the answer looked at, and a slow network
_ORDERS = ("watch without change", "watch order", "session order")
_ZXID = re.compile(r"0x[0-9a-f]+")


class Answers:
    """Of one world."""

    def __init__(
        self, oracle: Oracle, deceit: Deceit, max_staleness: float, violate: Callable[[str], None]
    ) -> None:
        self._oracle = oracle
        self._deceit = deceit
        self._max_staleness = max_staleness
        self._violate = violate
        #: zxids of states that servers with clients have loaded anew.
        self.loaded: set[int] = set()

    def replied(self, client: Client, session: int, request: Request, answer: Reply) -> None:
        """A read must be recent; an acknowledged write must be in the log, at its zxid, with this outcome."""
        deceived = self._deceit.answered(client.name, session, client.came_at, client.history)
        if deceived or not answer.zxid:
            return
        if isinstance(request, GetData | GetChildren | Exists):
            # Until the proxy stops serving since its state is old, or one of the two closes the connection
            # because of a silence of the other's or of etcd's.
            stalest = self._max_staleness + client.timeout + _STALENESS_TOLERANCE
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
        """The whole history."""
        whole = settled(history, writes, self._violate, self._oracle.ends)
        excused = [f"session {session:#x} " for session in expiry.excused]
        for violation in check(whole, expiry.excused, _DRIFT):
            rule, message = violation.rule, violation.message
            if is_of_a_load(violation, whole, self.loaded):
                continue
            if rule == "lifetime" and any(words in message for words in excused):
                continue
            if self._deceit.excuses(violation, whole):
                continue
            self._violate(f"history: {rule}: {message}")


def is_of_a_load(violation: Violation, history: History, loaded: Set[int]) -> bool:
    """Whether it concerns the events that a server sends when it has loaded its state anew.

    The events of all that the load has skipped have the zxid of the loaded state, one of `loaded`. If a
    change to the same node has this zxid, too, a lasting watch seems to leave out the node's earlier changes,
    and to report this one twice.
    """
    records = (history.records[place] for place in violation.records)
    if violation.rule.startswith("watch") and any(
        isinstance(record, Event) and record.zxid in loaded for record in records
    ):
        return True
    return violation.rule in _ORDERS and not loaded.isdisjoint(
        int(zxid, 16) for zxid in _ZXID.findall(violation.message)
    )
