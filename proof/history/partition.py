"""Which calls can be judged without which others: those that share no node whose state both touch.

Linearizability is local: a history is right if each part is. Nodes belong together if one request names both,
if they are ephemerals of one session, or if they are node and parent and the parent's own state matters: it
is listed, read with its counters, made or removed among its children's calls, or numbers sequential ones. A
parent that was made before all calls below it and has no such calls is *assumed* in the parts of its
children.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proof.history.calls import Call, is_watch, parent, parts_of, path_of
from proof.history.model import JUDGED
from proof.history.records import (
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Request,
    Sync,
    Write,
)

FOREIGN = "/zookeeper"
"""What the server itself makes: not judged."""


@dataclass(slots=True)
class Part:
    """Calls to judge together, and nodes that were there before.

    The calls are in the order of their invocations, but the ends of sessions come last.
    """

    calls: list[Call] = field(default_factory=list)
    assumed: set[str] = field(default_factory=set)
    used: Sequence[int] = ()
    """zxids of all known writes, in order.

    What is between them is free for lost calls, sessions and others.
    """


def judged(call: Call) -> bool:
    """Whether the tree says what this call's reply must be, or the call may have changed the tree."""
    if is_watch(call.request) or (isinstance(call.request, Sync) and call.zxid is not None):
        return False  # `order` judges a sync by its zxid
    if any((path_of(part) or "/").startswith(FOREIGN) for part in parts_of(call.request)):
        return False
    if call.reply is None:
        return not isinstance(call.request, Exists | GetData | GetChildren | Sync)
    errors = {call.reply.error, *(part.error for part in call.reply.parts or ())} - {0}
    return not errors or bool(errors & JUDGED)


def partition(calls: Iterable[Call], ends: dict[int, Call]) -> Iterator[Part]:
    """Split calls; `ends` are the sessions' ends. Syncs go to each part in which their session has a call."""
    calls = [call for call in calls if judged(call)]
    settled = _settled(calls)
    writes = (call for call in (*calls, *ends.values()) if isinstance(call.request, Write))
    used = sorted({call.zxid for call in writes if call.zxid is not None})
    groups = _Groups()
    for call in calls:
        nodes = [node for part in parts_of(call.request) for node in _nodes(part, call, settled)]
        for node in nodes[1:]:
            groups.join(nodes[0], node)
        for part in parts_of(call.request):
            if isinstance(part, Create) and part.ephemeral:
                groups.join(part.path, f"session {call.session}")
    parts: dict[str, Part] = {}
    mine: dict[int, set[str]] = {}
    for call in calls:
        first = next((node for part in parts_of(call.request) for node in _nodes(part, call, settled)), None)
        if isinstance(call.request, Sync) or first is None:
            continue
        name = groups.find(first)
        parts.setdefault(name, Part()).calls.append(call)
        mine.setdefault(call.session, set()).add(name)
    for call in calls:
        if isinstance(call.request, Sync):
            for name in mine.get(call.session, ()):
                parts[name].calls.append(call)
    for session, end in ends.items():
        name = groups.find(f"session {session}")
        if name in parts:
            parts[name].calls.append(end)
    for found in parts.values():
        # A session's end is its last call, whenever it may come.
        found.calls.sort(key=lambda call: (call.number < 0, call.invoked))
        found.assumed = {"/", *_above(found.calls, settled)}
        found.used = used
        yield found


def _above(calls: Iterable[Call], settled: set[str]) -> Iterator[str]:
    for call in calls:
        for part in parts_of(call.request):
            path = path_of(part)
            if path is not None and not isinstance(part, Sync) and parent(path) in settled:
                yield parent(path)


def _nodes(request: Request, call: Call, settled: set[str]) -> Iterator[str]:
    """The nodes whose state a request touches; for a session's end, the session."""
    if isinstance(request, CloseSession):
        yield f"session {call.session}"
        return
    path = path_of(request)
    if path is None or isinstance(request, Sync):
        return
    yield path
    if parent(path) not in settled and path != "/":
        yield parent(path)
    if isinstance(request, Create) and request.sequential:
        yield from _given(request, call)


def _given(request: Create, call: Call) -> Iterator[str]:
    if call.reply is not None:
        for reply in (call.reply, *(call.reply.parts or ())):
            if reply.path is not None and reply.path.startswith(request.path):
                yield reply.path


def _settled(calls: Iterable[Call]) -> set[str]:
    """Parents whose own state does not matter to calls on their children: see above."""
    first_below: dict[str, int] = {}
    made: dict[str, Call] = {}
    matters: set[str] = set()
    for call in calls:
        for part in parts_of(call.request):
            path = path_of(part)
            if path is None or isinstance(part, Sync):
                continue
            above = parent(path)
            if path != "/":
                first_below[above] = min(first_below.get(above, call.invoked), call.invoked)
            if isinstance(part, Create):
                if part.sequential:
                    matters.add(above)
                if path in made or part.ephemeral or not call.changed:
                    matters.add(path)
                made[path] = call
            elif isinstance(part, Delete | GetChildren) or _counters(call):
                matters.add(path)
    found = {"/"} if "/" not in matters else set()
    for path, first in first_below.items():
        if path not in matters and path in made and made[path].returned < first:
            found.add(path)
    return found


def _counters(call: Call) -> bool:
    """Whether a reply tells of children."""
    replies = (call.reply, *(call.reply.parts or ())) if call.reply is not None else ()
    stats = [reply.stat for reply in replies if reply.stat is not None]
    return any(
        stat.cversion is not None or stat.children is not None or stat.pzxid is not None for stat in stats
    )


class _Groups:
    """Union-find."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def find(self, name: str) -> str:
        root = name
        while (above := self._above.get(root, root)) != root:
            root = above
        while name != root:
            self._above[name], name = root, self._above.get(name, name)
        return root

    def join(self, one: str, other: str) -> None:
        self._above[self.find(one)] = self.find(other)
