"""The format of a history: requests, replies, records. Declarations only; `lines` has them as JSON.

Times are nanoseconds of any clock that all records share. **The order of the records is the order of time**:
a call whose reply stands before another call's invocation was over when that began. Records of several
recorders are merged by their times.

A zxid is what the reply's or event's header has. `None` (or a missing field) means that it was not recorded;
the checker then judges by real time and session order alone. Error codes, event types and the order of Stat's
fields are ZooKeeper's.
"""

from typing import NamedTuple

OK = 0
SYSTEM_ERROR, RUNTIME_INCONSISTENCY, CONNECTION_LOSS, BAD_ARGUMENTS = -1, -2, -4, -8
NO_NODE, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY = -101, -103, -108, -110, -111
SESSION_EXPIRED, SESSION_MOVED = -112, -118

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4

SEQUENCE_DIGITS = 10


class Create(NamedTuple):
    """A new node; a sequential one gets ten digits behind `path`."""

    path: str
    data: bytes | None = b""
    ephemeral: bool = False
    sequential: bool = False


class Delete(NamedTuple):
    """Version -1: any."""

    path: str
    version: int = -1


class SetData(NamedTuple):
    """Version -1: any."""

    path: str
    data: bytes | None = b""
    version: int = -1


class Check(NamedTuple):
    """Part of a multi."""

    path: str
    version: int = -1


class Multi(NamedTuple):
    """All or nothing."""

    parts: tuple[Create | Delete | SetData | Check, ...]


class CloseSession(NamedTuple):
    """The session's end by its client's wish. The checker takes an expiry for one of unknown time."""


class Exists(NamedTuple):
    """A Stat or NO_NODE. A watch is set in both cases."""

    path: str
    watch: bool = False


class GetData(NamedTuple):
    """Data and Stat. A watch is set if the node is there."""

    path: str
    watch: bool = False


class GetChildren(NamedTuple):
    """Names, in any order, and perhaps the Stat. A watch is set if the node is there."""

    path: str
    watch: bool = False


class Sync(NamedTuple):
    """What the session reads afterwards is no older than this request."""

    path: str = "/"


class AddWatch(NamedTuple):
    """A watch that stays; a recursive one is for the subtree, without CHILDREN events."""

    path: str
    recursive: bool = False


class SetWatches(NamedTuple):
    """A reconnected client's watches, and the last zxid that it saw."""

    zxid: int
    data: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    persistent: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()


Write = Create | Delete | SetData | Check | Multi | CloseSession
Read = Exists | GetData | GetChildren
Request = Write | Read | Sync | AddWatch | SetWatches


Zxid = int | tuple[int, int] | None
"""In a history a number or None. The model also says (low, high): above low, and no more than high."""


class Stat(NamedTuple):
    """Of ZooKeeper's Stat what does not depend on a clock or an ACL. None: not recorded."""

    czxid: Zxid = None
    mzxid: Zxid = None
    version: int | None = None
    cversion: int | None = None
    owner: int | None = None
    length: int | None = None
    children: int | None = None
    pzxid: Zxid = None


class Reply(NamedTuple):
    """An answer.

    `parts`: a multi's results; if it failed, errors: 0 before the failed part, its own at that.
    """

    error: int = 0
    zxid: int | None = None
    path: str | None = None
    data: bytes | None = None
    stat: Stat | None = None
    names: tuple[str, ...] | None = None
    parts: tuple["Reply", ...] | None = None


class Opened(NamedTuple):
    """A session began. `timeout_ms` as granted; 0: not recorded. `process` names the client for people."""

    time: int
    session: int
    timeout_ms: int = 0
    process: str = ""


class Attached(NamedTuple):
    """A session continues on another connection: its watches are gone until they are set again."""

    time: int
    session: int


class Disconnected(NamedTuple):
    """A session's connection broke. Calls without an answer get none."""

    time: int
    session: int


class Expired(NamedTuple):
    """The server said that the session is over (a handshake answered with session 0, SESSION_EXPIRED).

    No client learns the `zxid` of that end; a log does, where there is one to look at.
    """

    time: int
    session: int
    zxid: int | None = None


class Invoked(NamedTuple):
    """A request was sent. `call` numbers the calls of a history."""

    time: int
    session: int
    call: int
    request: Request


class Replied(NamedTuple):
    """The answer to a call: "ok" without an error, else "fail"."""

    time: int
    call: int
    reply: Reply


class Lost(NamedTuple):
    """A call got no answer ("info"): it may have been applied, or be applied later, once or never."""

    time: int
    call: int


class Event(NamedTuple):
    """A watch event as it came between the replies of its session."""

    time: int
    session: int
    type: int
    path: str
    zxid: int | None = None


Record = Opened | Attached | Disconnected | Expired | Invoked | Replied | Lost | Event


class Violation(NamedTuple):
    """A broken promise. `rule` is one of `checker.RULES`; `records` are positions in the history."""

    rule: str
    message: str
    records: tuple[int, ...] = ()
