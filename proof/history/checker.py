"""`check`: every rule on one history."""

from collections.abc import Collection, Iterable, Sequence

from proof.history.calls import Call, Taken, parts_of, take_apart
from proof.history.lifetime import check_afterlife, check_expiry, ends_of
from proof.history.order import check_order
from proof.history.partition import partition
from proof.history.recorder import History
from proof.history.records import (
    CHANGED,
    CREATED,
    DELETED,
    CloseSession,
    Create,
    Delete,
    Reply,
    Request,
    SetData,
    Violation,
)
from proof.history.search import Found, Step, search
from proof.history.watches import NOTHING_SKIPPED, Changes, Skipped, check_watches

RULES = {
    "linearizable": "an order of all calls explains every reply: no lost, doubled, partial or invented write",
    "undecided": "the search for such an order took too many steps",
    "zxid": "each acknowledged write has a zxid of its own",
    "real time": "a write is later than all that was seen before it was sent",
    "session order": "a session never goes back to an older state",
    "sync": "what a session reads behind a sync is no older than the sync",
    "sequence": "sequence numbers are unique and grow",
    "lifetime": "a session does not end before its timeout, and does nothing behind its end",
    "watch lost or late": "an event comes before newer data",
    "watch order": "events come in the order of the changes",
    "watch doubled": "a watch gives no event more than it owes",
    "watch without change": "an event has a change",
}
"""What `Violation.rule` may be, and the promise behind it."""


def check(
    history: History, orphans: Collection[int] = (), drift: float = 0.0, skipped: Skipped = NOTHING_SKIPPED
) -> list[Violation]:
    """Return the broken promises, none for a right history. Raises MalformedHistory.

    The history must begin with a tree that holds nothing of what it touches. `orphans` are sessions whose
    proxy was gone when they ended. Their timeout counts from that proxy's last contact with etcd, of which
    the history knows nothing: "lifetime" tells of an early end, but their ephemerals may go that early.
    `drift`: by which part a server's clock may be faster than that of the records. `skipped`: see `watches`.
    """
    taken = take_apart(history.records)
    violations = [*check_order(taken), *check_expiry(taken, drift), *check_afterlife(taken)]
    steps: list[Step] = []
    explained = True
    ends = ends_of(taken, orphans, drift)
    for part in partition(taken.calls, ends):
        found = search(part)
        if found.order is None:
            explained = False
            violations.append(_unexplained(found))
        else:
            steps += found.order
    # Without an order there is no knowing which events are due.
    if explained:
        violations += check_watches(taken, _changes(taken, steps, ends.values()), skipped)
    return violations


def _unexplained(found: Found) -> Violation:
    call = found.stuck
    rule = "undecided" if found.gave_up else "linearizable"
    if call is None:
        return Violation(rule, "no order of the calls fits their zxids and their sessions' orders")
    message = (
        f"call {call.number}, {_short(call.request)}: no order of the calls explains {_short(call.reply)}"
    )
    return Violation(rule, f"{message}; the nearest expects {_short(found.expected)}", call.records())


def _short(value: Request | Reply | None) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Reply) and value.names is not None:
        value = value._replace(names=tuple(sorted(value.names)))  # their order means nothing
    shown = (
        f"{name}={part!r}"
        for name, part in value._asdict().items()
        if part != value._field_defaults.get(name, ...)
    )
    text = f"{type(value).__name__}({', '.join(shown)})"
    return text if len(text) <= 300 else text[:297] + "..."


def _changes(taken: Taken, steps: Sequence[Step], ends: Iterable[Call]) -> Changes:
    """What the tree went through in the order that was found, and what else may have been."""
    changes = Changes()
    ending = {end.session for end in ends if end.zxid is None} | {
        call.session for call in taken.calls if isinstance(call.request, CloseSession) and not call.zxid
    }
    for call in taken.calls:
        unknown = call.zxid is None and (call.reply is None or call.changed)
        if unknown or (call.session in ending and call.changed):
            _may_be(changes, call, unknown=unknown)
    owned: dict[int, set[str]] = {}
    owners: dict[str, int] = {}
    for step in steps:
        # Where a lost call was put is one possibility of perhaps several.
        zxid = step.call.zxid
        if zxid is None or step.reply.error or any(part.error for part in step.reply.parts or ()):
            continue
        request = step.call.request
        if isinstance(request, CloseSession):
            for path in sorted(owned.pop(step.call.session, ())):
                # Perhaps a call without an answer had deleted it before.
                changes.change(None if changes.may_be(DELETED, path) else zxid, DELETED, path)
            continue
        replies = step.reply.parts if step.reply.parts is not None else (step.reply,)
        for part, made in zip(parts_of(request), replies, strict=True):
            if isinstance(part, Create):
                path = made.path or part.path
                changes.change(zxid, CREATED, path)
                if part.ephemeral:
                    owned.setdefault(step.call.session, set()).add(path)
                    owners[path] = step.call.session
            elif isinstance(part, Delete):
                changes.change(zxid, DELETED, part.path)
                owned.get(owners.pop(part.path, 0), set()).discard(part.path)
            elif isinstance(part, SetData):
                changes.change(zxid, CHANGED, part.path)
    changes.sort()
    return changes


def _may_be(changes: Changes, call: Call, *, unknown: bool) -> None:
    """Add what a call of unknown outcome may have changed, and the end of the ephemerals that it made.

    A session's end may be known, and that it took an ephemeral away whose create has no answer not.
    """
    for place, part in enumerate(parts_of(call.request)):
        if isinstance(part, Create):
            path = part.path + "*" if part.sequential else part.path
            if call.reply is not None:
                made = call.reply.parts[place] if call.reply.parts is not None else call.reply
                path = made.path or part.path
            if unknown:
                changes.change(None, CREATED, path)
            if part.ephemeral:
                changes.change(None, DELETED, path)
        elif unknown and isinstance(part, Delete):
            changes.change(None, DELETED, part.path)
        elif unknown and isinstance(part, SetData):
            changes.change(None, CHANGED, part.path)
