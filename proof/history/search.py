"""Is there an order of the calls that explains every reply?

Two ways, one search. Where replies have zxids, these are the order: writes are sorted by zxid, each read
comes after the write whose zxid its reply has, and all are **replayed** on the model, each reply compared.
That takes one pass and leaves nothing to choose. Where zxids are unknown, the order is **searched** as Wing
and Gong do it, with Lowe's memory of states that were visited (as Porcupine): a call may come next if no call
that had returned before it was invoked is left over. Calls without an answer are searched in both ways: each
comes somewhere after its invocation, or never.

Session order holds in both: a session's calls take effect in the order in which they were sent, and one
without an answer never after a later one that was answered (a client that continues elsewhere leaves its old
requests behind). Reads may be stale: in the search they are bound by session order and their own reply, not
by their invocation. A sync is bound by its invocation, and a read behind it by the sync.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from proof.history.calls import NEVER, Call, is_read, parent, parts_of, path_of
from proof.history.model import Model, differs
from proof.history.partition import Part
from proof.history.records import CloseSession, Create, Multi, Reply, Request, Zxid

_STEPS_EACH = 4
_STEPS_MORE = 50_000
_LOOK_AHEAD = 300


class Step(NamedTuple):
    """A call in its place, and what the model replies there."""

    call: Call
    reply: Reply


@dataclass(slots=True)
class Found:
    """What a search came to: an order, or the call that no order explains."""

    order: list[Step] | None
    stuck: Call | None = None
    expected: Reply | None = None
    gave_up: bool = False


def search(part: Part) -> Found:
    """Look for an order.

    First, lost calls are tried only where they touch what does not fit; then everywhere.
    """
    found = _Search(part, everywhere=False).run()
    if found.order is None and not found.gave_up and any(call.returned == NEVER for call in part.calls):
        again = _Search(part, everywhere=True).run()
        if again.order is not None or again.gave_up:
            return again
    return found


class _Taken(NamedTuple):
    """What to undo."""

    step: Step
    mark: int
    session: int
    pointer: int
    inserted: int


class _Search:
    def __init__(self, part: Part, *, everywhere: bool) -> None:
        self._everywhere = everywhere
        self._assumed = part.assumed
        self._model = Model(part.assumed)
        self._queues: dict[int, list[Call]] = {}
        self._place: dict[Call, int] = {}
        for call in part.calls:
            queue = self._queues.setdefault(call.session, [])
            self._place[call] = len(queue)
            queue.append(call)
        self._pointers = dict.fromkeys(self._queues, 0)
        must = [call for call in part.calls if call.returned != NEVER]
        self._left = len(must)
        self._ranked = sorted((call for call in must if call.zxid is not None), key=_rank)
        self._next = 0
        self._used = part.used
        self._used_once = frozenset(part.used)
        self._inserted = 0  # lost calls since the last ranked one
        self._loose = sorted((call for call in must if call.zxid is None), key=lambda call: call.returned)
        self._first_loose = 0
        self._loose_place = {call: place for place, call in enumerate(self._loose)}
        self._due = sorted((call for call in self._loose if call.high != NEVER), key=lambda call: call.high)
        self._due_place = {call: place for place, call in enumerate(self._due)}
        self._first_due = 0
        self._done: set[Call] = set()
        self._lost = [call for call in part.calls if call.returned == NEVER]
        self._lost_at: dict[str, list[Call]] = {}
        self._ends: dict[int, Call] = {}
        for call in self._lost:
            if isinstance(call.request, CloseSession):
                self._ends[call.session] = call
            for path in self._near(call.request):
                self._lost_at.setdefault(path, []).append(call)
        self._has_loose = Counter(call.session for call in self._loose)
        self._conflict: set[str] = set()  # what did not fit since the search has come farthest
        self._farthest = 0
        self._limit = len(part.calls) * _STEPS_EACH + _STEPS_MORE
        # Ranks that must be over before a call that was invoked then: by the returns of what is ranked.
        self._returns = sorted((call.returned, rank) for rank, call in enumerate(self._ranked))
        highest = -1
        self._over: list[tuple[int, int]] = []
        for returned, rank in self._returns:
            highest = max(highest, rank)
            self._over.append((returned, highest))
        self._best = -1
        self._stuck: tuple[Call, Reply] | None = None
        self._key = 0

    def run(self) -> Found:
        """The search itself: depth first, with a stack of its own."""
        taken: list[_Taken] = []
        branches = [self._branches()]
        seen: set[tuple[int, int]] = set()
        steps = 0
        while branches:
            if not self._left:
                return Found([entry.step for entry in taken])
            step = next(branches[-1], None)
            if step is None:
                branches.pop()
                if taken:
                    self._undo(taken.pop())
                continue
            steps += 1
            if steps > self._limit:
                return self._failed(gave_up=True)
            taken.append(step)
            state = (self._key, self._model.fingerprint)
            if state in seen:
                self._undo(taken.pop())
                continue
            seen.add(state)
            if self._progress() > self._farthest:
                self._farthest = self._progress()
                self._conflict.clear()
            branches.append(self._branches())
        return self._failed(gave_up=False)

    def _failed(self, *, gave_up: bool) -> Found:
        call, expected = self._stuck or (None, None)
        return Found(None, call, expected, gave_up)

    def _branches(self) -> Iterator[_Taken]:
        """Take, one after another, each call that may come next; what was taken is undone before the next."""
        misfits: list[Call] = []
        passed: list[Call] = []
        ranked, loose = self._ranked_head(), self._loose_heads()
        # Where zxids say what comes next, the others are tried only if that does not fit.
        for call in ranked or loose:
            taken = self._take(call)
            if taken is None:
                misfits.append(call)
                self._conflict |= self._near(call.request)
            else:
                passed.append(call)
                yield taken
        others = loose if ranked else []
        free = self._free()
        if free != []:
            others += [call for call in self._candidates() if self._may_come(call)]
        if not misfits and free is None:
            # It has come farther from here, and failed: what does not meddle with that is as good behind it.
            # Not so where zxids are known: behind it there may be none left.
            others = [call for call in others if not all(self._commute(call, other) for other in passed)]
        # First those behind which the known order fits for the longest, and of these what changes the least.
        fits = {call: self._fits_behind(call) if misfits and ranked else (0, 0) for call in others}
        for call in sorted(others, key=lambda call: fits[call]):
            taken = self._take(call)
            if taken is not None:
                yield taken

    def _ranked_head(self) -> list[Call]:
        if self._next == len(self._ranked):
            return []
        call = self._ranked[self._next]
        if _bound(call) and self._loose_before(call):
            return []
        overdue = self._first_due < len(self._due) and self._due[self._first_due].high <= (call.zxid or 0)
        return [call] if self._in_turn(call) and not overdue else []

    def _loose_heads(self) -> list[Call]:
        """The next call of each session, where that has an answer without a zxid and may come."""
        if self._first_loose == len(self._loose):
            return []
        waiting = [session for session, count in self._has_loose.items() if count]
        heads = [head for session in waiting if (head := self._head(session)) is not None]
        heads = [call for call in heads if call.zxid is None and self._may_come(call)]
        return sorted(heads, key=lambda call: call.returned)

    def _head(self, session: int) -> Call | None:
        """The session's next call with an answer."""
        queue = self._queues[session]
        for place in range(self._pointers[session], len(queue)):
            if queue[place].returned != NEVER:
                return queue[place]
        return None

    def _in_turn(self, call: Call) -> bool:
        """Whether session order lets a call come next: only lost ones are passed over."""
        queue = self._queues[call.session]
        place = self._place[call]
        pointer = self._pointers[call.session]
        return pointer <= place and all(queue[k].returned == NEVER for k in range(pointer, place))

    def _may_come(self, call: Call) -> bool:
        if not self._in_turn(call):
            return False
        if _in_gap(call):
            low, high = self._around_gap()
            if low >= call.high or high <= call.low:
                return False
        if call.reply is not None and not _bound(call):
            return True
        if self._loose_before(call):
            return False
        return self._next > self._needed(call.invoked)

    def _needed(self, invoked: int) -> int:
        """The highest rank of a call that had returned before `invoked`, -1 for none."""
        place = bisect_left(self._over, invoked, key=lambda over: over[0])
        return self._over[place - 1][1] if place else -1

    def _loose_before(self, call: Call) -> bool:
        """Whether a call without a zxid had returned before this one was invoked and is left over."""
        if self._first_loose >= len(self._loose):
            return False
        first = self._loose[self._first_loose]
        return first is not call and first.returned < call.invoked

    def _take(self, call: Call) -> _Taken | None:
        """Do a call on the model; None if its reply does not fit, or a lost one would change nothing."""
        model = self._model
        mark = model.mark()
        request = _settle(call, model)
        path = path_of(request)
        node = model.nodes.get(path) if path is not None else None
        assumed = node is not None and node.version is None
        zxid: Zxid = call.zxid
        if _in_gap(call):
            zxid = self._gap()
        reply = model.apply(request, call.session, zxid)
        if call.reply is None:
            if model.mark() == mark:
                return None
        elif differs(reply, call.reply, request, assumed=assumed, used=self._used_once):
            model.back(mark)
            if self._progress() > self._best:
                self._best, self._stuck = self._progress(), (call, reply)
            return None
        session = call.session
        taken = _Taken(Step(call, reply), mark, session, self._pointers[session], self._inserted)
        self._move(session, self._place[call] + 1)
        self._inserted += _in_gap(call)
        if call.returned != NEVER:
            self._left -= 1
            if call.zxid is not None:
                self._next += 1
                self._inserted = 0  # in the next gap
            else:
                self._done.add(call)
                self._has_loose[session] -= 1
                while self._first_loose < len(self._loose) and self._loose[self._first_loose] in self._done:
                    self._first_loose += 1
                while self._first_due < len(self._due) and self._due[self._first_due] in self._done:
                    self._first_due += 1
        return taken

    def _undo(self, taken: _Taken) -> None:
        call = taken.step.call
        self._model.back(taken.mark)
        self._inserted = taken.inserted
        self._move(taken.session, taken.pointer)
        if call.returned != NEVER:
            self._left += 1
            if call.zxid is not None:
                self._next -= 1
            else:
                self._done.discard(call)
                self._has_loose[call.session] += 1
                self._first_loose = min(self._first_loose, self._loose_place[call])
                self._first_due = min(self._first_due, self._due_place.get(call, self._first_due))

    def _move(self, session: int, pointer: int) -> None:
        self._key ^= hash((session, self._pointers[session])) ^ hash((session, pointer))
        self._pointers[session] = pointer

    def _progress(self) -> int:
        return self._next + len(self._done)

    def _fits_behind(self, call: Call) -> tuple[int, int]:
        """How many ranked calls fit after this one without another, negative; and how much it changes."""
        best = self._best, self._stuck
        first = self._take(call)
        if first is None:
            return 0, 0
        changes = self._model.mark() - first.mark
        taken = [first]
        while len(taken) <= _LOOK_AHEAD and (ranked := self._ranked_head()):
            step = self._take(ranked[0])
            if step is None:
                break
            taken.append(step)
        for step in reversed(taken):
            self._undo(step)
        self._best, self._stuck = best
        return 1 - len(taken), changes

    def _free(self) -> list[int] | None:
        """Up to two zxids that a lost call may have here; None: any."""
        if self._next == len(self._ranked):
            return None
        low = (self._ranked[self._next - 1].zxid or 0) if self._next else 0
        high = self._ranked[self._next].zxid or 0
        place = bisect_right(self._used, low)
        found: list[int] = []
        while low < high and len(found) < self._inserted + 2:
            low += 1
            if place < len(self._used) and self._used[place] == low:
                place += 1
            else:
                found.append(low)
        return found[self._inserted :]  # those before have taken one each

    def _gap(self) -> Zxid:
        """The zxid that such a call has here, as far as it is known."""
        if not self._ranked:
            return None
        free = self._free()
        if free is not None and len(free) == 1 and not self._inserted:
            return free[0]
        return self._around_gap()

    def _around_gap(self) -> tuple[int, int]:
        """The zxids of the ranked calls before and behind."""
        low = (self._ranked[self._next - 1].zxid or 0) if self._next else 0
        high = self._ranked[self._next].zxid if self._next < len(self._ranked) else None
        return low, high or NEVER

    def _candidates(self) -> list[Call]:
        """Lost calls that may explain what did not fit, in the order of their invocations."""
        if self._everywhere:
            return self._lost
        found = {call for path in self._conflict for call in self._lost_at.get(path, ())}
        for session, mine in self._model.ephemerals.items():
            if mine and session in self._ends and self._around(mine) & self._conflict:
                found.add(self._ends[session])
        return sorted(found, key=lambda call: call.invoked)

    def _commute(self, lost: Call, other: Call) -> bool:
        if self._everywhere:
            return False
        if isinstance(lost.request, CloseSession):
            mine = self._model.ephemerals.get(lost.session, set())
            return not self._around(mine) & self._near(other.request)
        return not self._near(lost.request) & self._near(other.request)

    def _near(self, request: Request) -> set[str]:
        """The nodes that a request names, and those whose children they are."""
        return self._around(path for part in parts_of(request) if (path := path_of(part)) is not None)

    def _around(self, paths: Iterable[str]) -> set[str]:
        return {near for path in paths for near in (path, parent(path))} - self._assumed


def _rank(call: Call) -> tuple[int, bool, int]:
    """The place in the order of zxids: a write that changed something, then all that saw it."""
    return call.zxid or 0, not call.changed, call.invoked


def _in_gap(call: Call) -> bool:
    """Whether a call has one of the zxids that no known write has: a lost one, or a session's end."""
    return call.returned == NEVER or (call.number < 0 and call.zxid is None)


def _bound(call: Call) -> bool:
    """Whether a call may come only after all that had returned before it was invoked: reads may be stale."""
    return not is_read(call.request)


def _settle(call: Call, model: Model) -> Request:
    """The request with the path that a sequential node got where its directory's counter is not known."""
    if call.reply is None:
        return call.request
    if isinstance(call.request, Multi) and call.reply.parts is not None:
        if len(call.request.parts) != len(call.reply.parts):
            return call.request  # `differs` tells
        parts = zip(call.request.parts, call.reply.parts, strict=True)
        return Multi(tuple(_named(part, reply, model) for part, reply in parts))  # type: ignore[misc]
    return _named(call.request, call.reply, model)


def _named(request: Request, reply: Reply, model: Model) -> Request:
    if isinstance(request, Create) and request.sequential and reply.path is not None:
        directory = model.nodes.get(parent(request.path))
        if directory is not None and directory.created is None:
            return request._replace(path=reply.path, sequential=False)
    return request
