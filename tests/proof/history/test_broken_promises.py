"""The checker finds each broken promise in a wrong history."""

import pytest

from proof.history import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    SetData,
    SetWatches,
    Stat,
    Sync,
    check,
)
from proof.history import records as r
from proof.history.checker import RULES
from tests.proof.history.stories import (
    MAKES_A,
    SETS_A_TO_1,
    WATCHED_A_AND_B,
    WATCHED_A_CHANGES,
    WATCHES_A,
    Step,
    Story,
    created,
    expired,
    opened,
    reconnected,
    told,
    version,
    watches_again,
)

BOTH_DONE = (Reply(), Reply())


def _a_session_moved_and_its_old_connection_is_answered(s: Story) -> None:
    late = s.invoke(s.tick(), 1, SetData("/a", b"1"))
    s.add(reconnected(1), (1, SetData("/a", b"2"), Reply(zxid=5, stat=version(1))))
    s.reply(s.tick(), late, Reply(zxid=6, stat=version(2)))


# The rule that is broken, and histories that break it.
BROKEN: dict[str, dict[str, list[Step]]] = {
    "linearizable": {
        "an acknowledged write is lost": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2"), Reply(zxid=2, stat=version(1))),
            (2, GetData("/a"), Reply(zxid=3, data=b"1", stat=version(0))),
        ],
        "an acknowledged write is lost without zxids": [
            (1, Create("/a", b"1"), Reply(path="/a")),
            (1, SetData("/a", b"2"), Reply()),
            (1, GetData("/a"), Reply(data=b"1")),
        ],
        "a write counts twice": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2"), Reply(zxid=2, stat=version(1))),
            (1, SetData("/a", b"3"), Reply(zxid=4, stat=version(3))),
        ],
        "an unanswered write counts twice": [
            (1, Create("/q"), created("/q", 1)),
            (2, Create("/q/n-", b"x", sequential=True)),
            (1, GetChildren("/q"), Reply(zxid=9, names=("n-0000000000", "n-0000000001"))),
        ],
        "an unanswered write comes behind a later one": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2")),
            (1, SetData("/a", b"3"), Reply(zxid=3, stat=version(1))),
            (2, GetData("/a"), Reply(zxid=9, data=b"2")),
        ],
        "an unanswered write shows and is gone": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2")),
            (2, GetData("/a"), Reply(zxid=3, data=b"2")),
            (2, GetData("/a"), Reply(zxid=4, data=b"1")),
        ],
        "a value comes from nowhere": [SETS_A_TO_1, (2, GetData("/a"), Reply(zxid=2, data=b"9"))],
        "a refused write counts": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2", 7), Reply(r.BAD_VERSION, 2)),
            (1, GetData("/a"), Reply(zxid=3, data=b"2")),
        ],
        "a refusal without reason": [(1, Create("/a"), Reply(r.NODE_EXISTS, 1))],
        "a multi counts in part": [
            (1, Multi((Create("/a"), Check("/absent"))), Reply(zxid=1, parts=(Reply(), Reply(r.NO_NODE)))),
            (1, Exists("/a"), Reply(zxid=2, stat=Stat(czxid=1))),
        ],
        "a multi names the wrong part": [
            (
                1,
                Multi((Check("/absent"), Delete("/absent"))),
                Reply(zxid=1, parts=(Reply(), Reply(r.NO_NODE))),
            )
        ],
        "keys of a multi are seen apart": [
            SETS_A_TO_1,
            (1, Create("/b", b"1"), created("/b", 2)),
            (1, Multi((SetData("/a", b"2"), SetData("/b", b"2"))), Reply(zxid=3, parts=BOTH_DONE)),
            (2, GetData("/a"), Reply(zxid=3, data=b"2")),
            (2, GetData("/b"), Reply(zxid=3, data=b"1")),
        ],
        "a stat is wrong": [
            MAKES_A,
            (1, Create("/a/b"), created("/a/b", 2)),
            (1, Exists("/a"), Reply(zxid=2, stat=Stat(pzxid=1))),
        ],
        "a read behind a sync is old without zxids": [
            (1, Create("/a"), Reply(path="/a")),
            (2, Sync(), Reply()),
            (2, Exists("/a"), Reply(r.NO_NODE)),
        ],
        "a number is left out": [
            (1, Create("/q"), created("/q", 1)),
            (1, Create("/q/n-", sequential=True), created("/q/n-0000000001", 2)),
        ],
        "an ephemeral outlives its session": [
            (1, Create("/e", ephemeral=True), created("/e", 1)),
            (1, CloseSession(), Reply(zxid=2)),
            (2, Exists("/e"), Reply(zxid=2, stat=Stat(czxid=1))),
        ],
        "an ephemeral outlives an expiry": [
            opened(1, 10),
            (1, Create("/e", ephemeral=True), created("/e", 1)),
            expired(1, after_ms=100),
            (2, Create("/b"), created("/b", 9)),
            (2, Exists("/e"), Reply(zxid=9, stat=Stat(czxid=1))),
        ],
        "ephemerals go one by one": [
            (1, Create("/e", ephemeral=True), created("/e", 1)),
            (1, Create("/f", ephemeral=True), created("/f", 2)),
            (2, Exists("/e"), Reply(r.NO_NODE, 5)),
            (2, Exists("/f"), Reply(zxid=6, stat=Stat(czxid=2))),
        ],
        "an ephemeral goes while its session works": [
            (1, Create("/e", ephemeral=True), created("/e", 1)),
            (2, Exists("/e"), Reply(r.NO_NODE, 3)),
            (1, Create("/b"), created("/b", 5)),
        ],
        "an ephemeral goes before the timeout": [
            opened(1, 4000),
            (1, Create("/e", ephemeral=True), created("/e", 1)),
            (2, Exists("/e"), Reply(r.NO_NODE, 3)),
        ],
        "a sync without zxid promises too much": [
            (1, Create("/a"), created("/a", 2)),
            (2, Sync(), Reply()),
            (2, Exists("/a"), Reply(r.NO_NODE, 1)),
        ],
        "a multi without an answer is seen in part": [
            SETS_A_TO_1,
            (1, Create("/b", b"1"), created("/b", 2)),
            (1, Multi((SetData("/a", b"2"), SetData("/b", b"2")))),
            (2, GetData("/a"), Reply(zxid=5, data=b"2")),
            (2, GetData("/b"), Reply(zxid=5, data=b"1")),
        ],
        "a multi has too few results": [
            (1, Multi((Create("/a"), Create("/b"))), Reply(zxid=1, parts=(Reply(path="/a"),)))
        ],
        "an unanswered write has the zxid of another": [
            SETS_A_TO_1,
            (1, Create("/b"), created("/b", 3)),
            (2, SetData("/a", b"2")),
            (1, Create("/c"), created("/c", 5)),
            (1, GetData("/a"), Reply(zxid=5, data=b"2", stat=Stat(mzxid=5))),
        ],
        "an unanswered write is seen before it was sent": [
            SETS_A_TO_1,
            (2, GetData("/a"), Reply(zxid=2, data=b"2")),
            (1, SetData("/a", b"2")),
        ],
        "a number of an unanswered create comes again": [
            (1, Create("/q"), created("/q", 1)),
            (1, Create("/q/n-", sequential=True)),
            (2, GetChildren("/q"), Reply(zxid=3, names=("n-0000000000",))),
            (2, Create("/q/n-", sequential=True), Reply(r.NODE_EXISTS, 4)),
            (3, Create("/q/m-", sequential=True), created("/q/m-0000000000", 5)),
        ],
        "a session moved and its old connection is answered": [
            (2, Create("/a"), created("/a", 1)),
            _a_session_moved_and_its_old_connection_is_answered,
        ],
        "an ephemeral outlives a session with an id below 0": [
            opened(-5, 10),
            (-5, Create("/e", ephemeral=True), created("/e", 1)),
            expired(-5, after_ms=100),
            (2, Create("/b"), created("/b", 9)),
            (2, Exists("/e"), Reply(zxid=9, stat=Stat(czxid=1))),
        ],
    },
    "zxid": {"two writes have one zxid": [MAKES_A, (2, Create("/b"), created("/b", 1))]},
    "real time": {
        "a later write has an earlier zxid": [
            (1, Create("/a"), created("/a", 5)),
            (2, Create("/b"), created("/b", 4)),
        ],
        "a refusal is old": [
            (1, Create("/lock"), created("/lock", 1)),
            (1, Delete("/lock"), Reply(zxid=5)),
            (2, Create("/lock"), Reply(r.NODE_EXISTS, 4)),
        ],
        "a refused multi is old": [
            MAKES_A,
            (1, SetData("/a"), Reply(zxid=5)),
            (
                2,
                Multi((Check("/a", 1), Delete("/a"))),
                Reply(zxid=2, parts=(Reply(r.BAD_VERSION), Reply(r.RUNTIME_INCONSISTENCY))),
            ),
        ],
    },
    "session order": {
        "a session goes back": [
            MAKES_A,
            (1, Create("/b"), created("/b", 2)),
            (1, Exists("/b"), Reply(r.NO_NODE, 1)),
        ],
        "a session misses what its event said": [
            *WATCHED_A_CHANGES,
            told(2, r.CHANGED, "/a", 2),
            (2, GetData("/a"), Reply(zxid=1, data=b"1")),
        ],
        "an event comes behind newer data": [
            *WATCHED_A_CHANGES,
            (1, Create("/b"), created("/b", 3)),
            (2, Exists("/b"), Reply(zxid=3)),
            told(2, r.CHANGED, "/a", 2),
        ],
    },
    "sync": {
        "a read behind a sync is old": [
            (1, Create("/a"), created("/a", 2)),
            (2, Sync(), Reply(zxid=2)),
            (2, Exists("/a"), Reply(r.NO_NODE, 1)),
        ],
        "a sync is old": [(1, Create("/a"), created("/a", 2)), (2, Sync(), Reply(zxid=1))],
        "a read behind a sync is old elsewhere": [
            (1, Create("/a"), created("/a", 2)),
            (2, Sync(), Reply(zxid=2)),
            reconnected(2),
            (2, Exists("/a"), Reply(r.NO_NODE, 1)),
        ],
    },
    "sequence": {
        "a number is given twice": [
            (1, Create("/q"), created("/q", 1)),
            (1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 2)),
            (2, Create("/q/m-", sequential=True), created("/q/m-0000000000", 3)),
        ],
        "numbers do not grow": [
            (1, Create("/q"), created("/q", 1)),
            (1, Create("/q/n-", sequential=True), created("/q/n-0000000001", 2)),
            (1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 3)),
        ],
        "a number comes again when its node is gone": [
            (1, Create("/q"), created("/q", 1)),
            (1, Create("/q/n-", sequential=True), created("/q/n-0000000000", 2)),
            (1, Delete("/q/n-0000000000"), Reply(zxid=3)),
            (2, Create("/q/n-", sequential=True), created("/q/n-0000000000", 4)),
        ],
    },
    "lifetime": {
        "a session expires too early": [opened(1, 4000), MAKES_A, expired(1)],
        "a closed session works on": [
            (1, CloseSession(), Reply(zxid=2)),
            (1, Create("/e", ephemeral=True), created("/e", 3)),
        ],
        "an expired session works on": [expired(1), (1, Exists("/a"), Reply(r.NO_NODE, 3))],
    },
    "watch lost or late": {
        "an event is lost": [*WATCHED_A_CHANGES, (2, GetData("/a"), Reply(zxid=2, data=b"2"))],
        "an event comes behind newer data": [
            *WATCHED_A_CHANGES,
            (2, GetData("/a"), Reply(zxid=2, data=b"2")),
            told(2, r.CHANGED, "/a", 2),
        ],
        "a lasting watch leaves one out": [
            MAKES_A,
            (2, AddWatch("/a"), Reply(zxid=1)),
            (1, Create("/a/b"), created("/a/b", 2)),
            (1, Create("/a/c"), created("/a/c", 3)),
            told(2, r.CHILDREN, "/a", 3),
        ],
        "a reconnected client misses an event": [
            *WATCHED_A_CHANGES,
            watches_again(SetWatches(1, data=("/a",))),
        ],
        "an event comes behind another node of its multi": [
            SETS_A_TO_1,
            (1, Create("/b", b"1"), created("/b", 2)),
            (2, GetData("/a", watch=True), Reply(zxid=2, data=b"1")),
            (1, Multi((SetData("/b", b"2"), SetData("/a", b"2"))), Reply(zxid=3, parts=BOTH_DONE)),
            (2, GetData("/b"), Reply(zxid=3, data=b"2")),
            told(2, r.CHANGED, "/a", 3),
        ],
        "a recursive watch leaves out a part of a multi": [
            MAKES_A,
            (2, AddWatch("/a", recursive=True), Reply(zxid=1)),
            (
                1,
                Multi((Create("/a/b"), Create("/a/c"))),
                Reply(zxid=2, parts=(Reply(path="/a/b"), Reply(path="/a/c"))),
            ),
            told(2, r.CREATED, "/a/b", 2),
            (2, Exists("/a/c"), Reply(zxid=2)),
        ],
        "a persistent watch leaves out a part of a multi": [
            MAKES_A,
            (2, AddWatch("/a"), Reply(zxid=1)),
            (1, Multi((SetData("/a", b"1"), SetData("/a", b"2"))), Reply(zxid=2, parts=BOTH_DONE)),
            told(2, r.CHANGED, "/a", 2),
            (2, Exists("/a"), Reply(zxid=2)),
        ],
    },
    "watch doubled": {
        "an event comes twice": [
            *WATCHED_A_CHANGES,
            told(2, r.CHANGED, "/a", 2),
            told(2, r.CHANGED, "/a", 2),
        ],
        "an event of a lasting watch comes twice": [
            MAKES_A,
            (2, AddWatch("/a", recursive=True), Reply(zxid=1)),
            (1, Create("/a/b"), created("/a/b", 2)),
            told(2, r.CREATED, "/a/b", 2),
            told(2, r.CREATED, "/a/b", 2),
        ],
        "an event without a watch": [MAKES_A, told(2, r.CREATED, "/a", 1), (2, Exists("/a"), Reply(zxid=1))],
        "a watch that is set again gives two events before the reply": [
            *WATCHED_A_CHANGES,
            (1, SetData("/a"), Reply(zxid=3)),
            watches_again(
                SetWatches(1, data=("/a",)), told(2, r.CHANGED, "/a", 2), told(2, r.CHANGED, "/a", 3), zxid=3
            ),
        ],
        "an event has a change before its watch": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2"), Reply(zxid=2)),
            (2, GetData("/a", watch=True), Reply(zxid=2, data=b"2")),
            told(2, r.CHANGED, "/a", 2),
        ],
        "a lasting watch tells of what was before it": [
            SETS_A_TO_1,
            (1, SetData("/a", b"2"), Reply(zxid=2)),
            (2, AddWatch("/a"), Reply(zxid=3)),
            told(2, r.CHANGED, "/a", 2),
        ],
    },
    "watch without change": {
        "an event without a change": [SETS_A_TO_1, WATCHES_A, told(2, r.CHANGED, "/a", 2)],
        "a reconnected client is told of no change": [
            *WATCHED_A_AND_B,
            watches_again(SetWatches(2, data=("/a",)), told(2, r.CHANGED, "/a")),
        ],
        "a reconnected client is told that a node is gone": [
            *WATCHED_A_AND_B,
            watches_again(SetWatches(2, data=("/a",)), told(2, r.DELETED, "/a")),
        ],
        "a reconnected client is told of what it did not ask": [
            *WATCHED_A_AND_B,
            watches_again(SetWatches(2, data=("/a",)), told(2, r.CHANGED, "/b")),
        ],
    },
    "watch order": {
        "events come in another order": [
            *WATCHED_A_AND_B,
            (1, SetData("/a", b"2"), Reply(zxid=3)),
            (1, SetData("/b", b"2"), Reply(zxid=4)),
            told(2, r.CHANGED, "/b", 4),
            told(2, r.CHANGED, "/a", 3),
        ]
    },
}


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        pytest.param(rule, steps, id=name)
        for rule, histories in BROKEN.items()
        for name, steps in histories.items()
    ],
)
def test_a_broken_promise_is_found(rule: str, steps: list[Step]) -> None:
    assert rule in {violation.rule for violation in check(Story(*steps))}


def test_each_rule_is_tested() -> None:
    """But "undecided", which is no broken promise."""
    assert BROKEN.keys() == RULES.keys() - {"undecided"}
