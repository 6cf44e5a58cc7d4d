"""A child of the console that reads the archive: `python -m console.answers.past_worker` (`past` starts it).

Each line of JSON is a question, and the line that it writes is the answer: `{"ok": ...}`, or a status of HTTP
and an error. It has one past tree in memory at most, and ends when its stdin is closed.
"""

import gc
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from archive.files.catalog import ArchiveError, Catalog, NotArchived
from archive.files.moment import Moment, moment, time
from archive.files.small_files import complete_up_to
from archive.files.store import store_of
from archive.past.history import Event, History
from archive.past.listing import listing
from archive.past.state import state_at
from codec.longs import hex64
from console.answers.znodes import details
from console.people.logins import Refused
from console.walks.listing import first_of, may_read
from proxy.state.auth.scheme import Identities, Identity
from proxy.state.machine import Machine
from proxy.state.node import Node, child_names
from proxy.support.child import begin

_MOST_NAMES = 200  # children of a past node that are named


class Answers:
    """About one archive."""

    def __init__(self, url: str) -> None:
        self._store = store_of(url)
        self._at: Moment | None = None
        self._machine: Machine | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question."""
        kinds: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "span": self._span,
            "history": self._history,
            "node": self._node,
        }
        try:
            return {"ok": kinds[question["ask"]](question)}
        except Refused as error:
            return {"status": error.status, "error": str(error)}
        except NotArchived as error:
            return {"status": 404, "error": str(error)}
        except (ArchiveError, OSError, ValueError) as error:
            return {"status": 503, "error": f"the archive cannot be read: {error}"}

    def _span(self, _question: dict[str, Any]) -> dict[str, Any]:
        """From when to when there is something, and what is missing."""
        runs = Catalog(self._store.list()).runs
        if not runs:
            raise NotArchived("the archive is empty so far")
        return {
            "fromMs": runs[0].begin.clock or None,  # None: from the tree's beginning on
            "begunMs": runs[0].begun,
            "toMs": max(complete_up_to(self._store, runs[-1]).clock, runs[-1].end.clock),
            "gaps": len(listing(self._store).data["gaps"]),
        }

    def _state(self, at: Moment) -> Machine:
        if self._machine is None or at != self._at:
            self._machine = None  # first: there is one tree at a time
            gc.collect()
            self._machine = state_at(self._store, at)
            self._at = at
        return self._machine

    def _node(self, question: dict[str, Any]) -> dict[str, Any]:
        path, identities = question["path"], _identities(question)
        at = _moment(question["at"])
        machine = self._state(at)
        node = machine.tree.nodes.get(path)
        if node is None:
            return {"path": path, "at": str(at), "zxid": hex64(machine.zxid), "node": None}
        if not may_read(node, identities):
            raise Refused(403, f"the ACL that {path!r} had then does not let this login read it")
        names = sorted(child_names(node))
        return {
            "path": path,
            "at": str(at),
            "zxid": hex64(machine.zxid),
            "node": details(path, node, identities),
            "children": first_of(names[:_MOST_NAMES]),
        }

    def _history(self, question: dict[str, Any]) -> dict[str, Any]:
        """The last changes of a path, newest first."""
        since = None if question["sinceMs"] is None else time(question["sinceMs"])
        history = History(self._store, question["path"], since=since)
        counted = _Counted(history.events())
        events = deque(counted, maxlen=question["limit"])
        if not question["exists"]:
            self._check_readable(question["path"], events, _identities(question))
        return {
            "events": [_shown(event) for event in reversed(events)],
            "total": counted.count,
            "gaps": len(history.gaps),
            "read": history.cost._asdict(),
        }

    def _check_readable(self, path: str, events: Iterable[Event], identities: Identities) -> None:
        """The history of a node that is gone, for a login that might read it when it was deleted."""
        last = next(reversed(list(events)), None)
        if last is None:
            return
        # Its deletion may not be archived yet.
        zxid = last.zxid - 1 if last.change == "deleted" else last.zxid
        node: Node | None = self._state(_moment(hex64(zxid))).tree.nodes.get(path)
        if node is None or not may_read(node, identities):
            raise Refused(403, f"the ACL that {path!r} had does not let this login read it")


class _Counted:
    """Counts what it passes on."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = iter(events)
        self.count = 0

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        self.count += 1
        return event


def _identities(question: dict[str, Any]) -> Identities:
    return tuple(Identity(*each) for each in question["identities"])


def _moment(at: int | str) -> Moment:
    return time(at) if isinstance(at, int) else moment(at, 0)


def _shown(event: Event) -> dict[str, Any]:
    """A change without data."""
    return {
        "timeMs": event.time,
        "zxid": hex64(event.zxid),
        "before": hex64(event.zxid - 1),
        "change": event.change,
        "operation": event.operation,
        "session": event.session,
        "users": event.identities,
        "versions": [event.before, event.after],
        "sizes": [event.size_before, event.size_after],
        "reason": event.reason,
    }


def _lines() -> Iterable[bytes]:
    """The lines of stdin."""
    rest = b""
    while more := os.read(sys.stdin.fileno(), 1 << 16):
        *whole, rest = (rest + more).split(b"\n")
        yield from whole


def main() -> int:
    """Answer until stdin is closed."""
    url = begin("past")["url"]
    answers = None
    for line in _lines():
        try:
            answers = answers or Answers(url)
            answer = answers.answer(json.loads(line))
        except (ArchiveError, OSError, ValueError) as error:
            answer = {"status": 503, "error": f"the archive cannot be read: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
