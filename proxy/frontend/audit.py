"""The lines of the audit log: which user requested which change, and whether it was made. Pure.

The form is ZooKeeper's (AuditEvent, AuditHelper): pairs of a name and a value, separated by tabs. A multi has
the lines of its parts, or a single one if it failed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, assert_never

from codec.constants import CreateMode, ErrorCode, OpCode, Perms
from codec.jute import NO_TEXT, Acl, Reader
from codec.longs import hex64
from codec.packets import MULTI_HEADER, STAT
from proxy.state.auth.scheme import Identity
from proxy.state.auth.schemes import SCHEMES
from proxy.state.effect import Effect, path_of
from proxy.state.operation import Holds, WriteOperation
from proxy.state.ops import EXTENDED
from proxy.support.controls import CONTROLS, shortened

#: The scheme of an identity that names a user of the console. No ACL can have it, so it permits nothing.
CONSOLE = "console"
_SUCCESS, _FAILURE = "success", "failure"
# This proxy has loaded a state that contains the request, so it does not know the outcome.
_UNKNOWN = "unknown"
_MOST_OF_USERS = 256  # characters
_MOST = 4096  # characters of any other value: a client must not fill the disk faster than it sends
_MOST_ENTRIES = 512  # of an ACL: more have more characters
_MODES = {mode.value: mode.name.lower() for mode in CreateMode}
# In the order of ZKUtil.getPermString.
_PERMS = ((Perms.CREATE, "c"), (Perms.DELETE, "d"), (Perms.READ, "r"), (Perms.WRITE, "w"), (Perms.ADMIN, "a"))
_LETTERS = ["".join([letter for bit, letter in _PERMS if perms & bit]) for perms in range(32)]
# A client's path may contain characters that would look like another field or line.
_ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS}


def of_request(
    session_id: int,
    identities: Iterable[Identity],
    address: str,
    opcode: int,
    fields: Any,
    err: int,
    body: bytes,
) -> Iterator[str]:
    """The lines of a client's write. `fields`: decoded, None if they could not be; `body`: its reply's."""
    result = _SUCCESS if not err else _UNKNOWN if err == ErrorCode.CONNECTION_LOSS else _FAILURE
    head = _line(("session", hex64(session_id)), ("user", _user(identities)), ("ip", address))
    if opcode == OpCode.MULTI:
        if err or fields is None or MULTI_HEADER.unpack_from(body)[:2] == (OpCode.ERROR, False):
            yield f"{head}\t{_line(('operation', 'multiOperation'), ('result', result if err else _FAILURE))}"
            return
        position = 0
        for kind, part in fields:
            path, position = _created(kind.operation, body, position + MULTI_HEADER.size)
            if kind.operation.audited:
                operation = _operation(kind.operation, part, path)
                if not kind.operation.audits_mode:
                    operation = (pair for pair in operation if pair[0] != "znode_type")
                yield f"{head}\t{_line(*operation, ('result', result))}"
    elif (write := EXTENDED.writes.get(opcode)) is not None and write.audited and fields is not None:
        path = None if err else _created(write, body, 0)[0]
        yield f"{head}\t{_line(*_operation(write, fields, path), ('result', result))}"


def of_session_end(user: str, session_id: int, paths: Sequence[str]) -> Iterator[str]:
    """The lines of the ephemerals deleted with a session. `user`: the one that this process runs as."""
    for path in paths:
        yield _line(
            ("session", hex64(session_id)),
            ("user", user),
            ("operation", "ephemeralZNodeDeletionOnSessionCloseOrExpire"),
            ("znode", path),
            ("result", _SUCCESS),
        )


def of_kill(session_id: int, killer: str) -> str:
    """The line of a session that an administrator has ended, which ZooKeeper's log does not have."""
    return _line(
        ("session", hex64(session_id)), ("user", killer), ("operation", "killSession"), ("result", _SUCCESS)
    )


def of_refusal(session_id: int, name: str, address: str, scheme: str) -> str:
    """The line of an authentication that failed, which ZooKeeper's log does not have.

    `name`: the name that the client claims, if it is known.
    """
    return _line(
        ("session", hex64(session_id)),
        ("user", name),
        ("ip", address),
        ("operation", "authenticate"),
        ("scheme", scheme),
        ("result", _FAILURE),
    )


def of_server(user: str, operation: str) -> str:
    """The line of this server's start or stop."""
    return _line(("user", user), ("operation", operation), ("result", _SUCCESS))


def _operation(write: WriteOperation, fields: Any, created: str | None) -> Iterator[tuple[str, str]]:
    """The requested change. `created`: the path that a create has made, with its sequence number."""
    yield "operation", write.audited
    path = path_of(fields) if created is None else created
    if path is not None and write.has_path:
        yield "znode", path
    match write.effect:
        case Effect.CREATES:
            mode = _MODES.get(fields[3])
            if mode is not None:
                yield "znode_type", mode
        case Effect.SETS_ACL:
            yield "acl", "".join(islice(_acl(fields[1]), _MOST_ENTRIES))
        case Effect.NOTHING | Effect.SETS_DATA | Effect.DELETES | Effect.OF_PARTS:
            pass
        case _:
            assert_never(write.effect)


def _line(*pairs: tuple[str, str]) -> str:
    return "\t".join([f"{name}={_shown(value)}" for name, value in pairs])


def _shown(value: str) -> str:
    value = shortened(value, _MOST)
    return value if value.isprintable() else value.translate(_ESCAPES)


def _user(identities: Iterable[Identity]) -> str:
    """All names, cut where a multi, whose parts have a line each, could fill the disk with them."""
    names = ",".join(_users(identities))
    if len(names) <= _MOST_OF_USERS:
        return names
    # Clients choose their digest users, as many as they like: so these come last.
    chosen_last = sorted(identities, key=lambda each: each.scheme == "digest")
    return shortened(",".join(_users(chosen_last)), _MOST_OF_USERS)


def _users(identities: Iterable[Identity]) -> Iterator[str]:
    """The names of a client's users (AuthUtil.getUsers)."""
    for identity in identities:
        if identity.scheme == CONSOLE:
            yield f"{CONSOLE}:{identity.id}"
        scheme = SCHEMES.get(identity.scheme)
        if scheme is not None:
            yield scheme.user_name(identity.id)


def _java(text: str) -> str:
    return "null" if text is NO_TEXT else text


def _acl(acl: Sequence[Acl] | None) -> Iterator[str]:
    """As ZKUtil.aclToString: no separator between the entries."""
    for perms, scheme, name in acl or ():
        yield f"{_java(scheme)}:{_java(name)}:{_LETTERS[perms & 31]}"


def _created(operation: WriteOperation, body: bytes, position: int) -> tuple[str | None, int]:
    """The path that an operation has created, by its result, or None; and the position after the result."""
    reader = Reader(body, position)
    path = reader.string() if Holds.PATH in operation.holds else None
    return path, reader.position + (STAT.size if Holds.STAT in operation.holds else 0)
