"""Watch events of a state that a server has loaded anew, which break no promise. Pure.

They tell a session's watches all that its server has skipped, at the zxid of the loaded state, in any order.
The history knows the changes' own zxids. So such an event seems to be of no change, or too early. If a
change to the same node has this zxid, too, a lasting watch seems to leave out the node's earlier changes, and
to report this one twice.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from proof.history import Violation
from proof.history.records import Event, Record


class Home(NamedTuple):
    """Where a session is, from a time of the history on."""

    since: int
    server: str


class Loads(NamedTuple):
    """Which servers have loaded which states anew, and where sessions were."""

    zxids: Mapping[str, Collection[int]] = {}
    """By server those of the states."""
    homes: Mapping[int, Sequence[Home]] = {}
    """By session, in the order of time."""

    def explain(self, violation: Violation, records: Sequence[Record]) -> bool:
        """Whether what is wrong is an event of a state that its session's server had loaded anew.

        `records`: the history that was checked. A session that reads an older state is never explained.
        """
        if not violation.rule.startswith("watch "):
            return False
        event = records[violation.records[-1]]
        if not isinstance(event, Event):
            return False
        homes = self.homes.get(event.session, ())
        place = bisect_right(homes, event.time, key=lambda home: home.since) - 1
        return place >= 0 and event.zxid in self.zxids.get(homes[place].server, ())
