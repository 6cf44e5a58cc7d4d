"""`zketcd create`, `set`, `delete`, `rmr`, `acl` and `shell`.

Exit codes: 0 done, 1 refused or not done, 2 wrong usage.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cli.client import Client, Refused, connected
from cli.output import counted, one_line, say, show
from codec import client as zk
from codec.client import Request
from codec.constants import CreateMode
from codec.errors import MalformedPacket
from codec.jute import OPEN_ACL, Acl
from schema.paths import ROOT
from zketcd.online import nodes, options
from zketcd.online.shell import Shell

T = TypeVar("T")

parser = options.parser
_MODES = {
    "persistent": CreateMode.PERSISTENT,
    "sequential": CreateMode.PERSISTENT_SEQUENTIAL,
    "container": CreateMode.CONTAINER,
}
_WITH_TTL = {
    "persistent": CreateMode.PERSISTENT_WITH_TTL,
    "sequential": CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
}


def main(arguments: Sequence[str], command: str) -> int:
    """Run one command; the exit code."""
    made = parser(command)
    given = made.parse_args(arguments)
    if command == "create" and given.ttl and given.mode not in _WITH_TTL:
        made.error("--ttl does not go with --mode container")
    if command == "rmr" and given.path == ROOT:
        made.error("the root cannot be deleted: name the nodes below it")
    try:
        session = connected(given, made)
        try:
            return _COMMANDS[command](session, given)
        finally:
            session.close()
    except (Refused, MalformedPacket, OSError, ValueError) as error:
        say(f"zketcd {command}: {error}")
        return 1


def _data(given: Any) -> bytes:
    return sys.stdin.buffer.read() if given.data == "-" else given.data.encode(errors="surrogateescape")


def _create(session: Client, given: Any) -> int:
    data = _data(given)
    if given.parents:
        nodes.create_parents(session, given.path)
    mode = (_WITH_TTL if given.ttl else _MODES)[given.mode]
    show(session.call(zk.create(given.path, data, mode, given.acl or OPEN_ACL, given.ttl)))
    return 0


def _set(session: Client, given: Any) -> int:
    stat = session.call(zk.set_data(given.path, _data(given), given.if_version))
    show(f"{given.path} has version {stat.version}, zxid 0x{stat.mzxid:x}")
    return 0


def _delete(session: Client, given: Any) -> int:
    session.call(zk.delete(given.path, given.if_version))
    say(f"{given.path}: deleted 1 node")
    return 0


def _rmr(session: Client, given: Any) -> int:
    if given.dry_run:
        paths = list(nodes.walk(session, given.path))
        for path in paths:
            show(path)
        say(f"{counted(len(paths), 'node')}; nothing was deleted")
        return 0
    nodes.delete_all(session, given.path)
    return 0


def _acl(session: Client, given: Any) -> int:
    def answer(request: Request[T]) -> T | None:
        """None for a node that goes meanwhile: `walk` leaves it out as well."""
        return session.call(request if request.path == given.path else zk.maybe(request))

    changed = 0
    for path in nodes.walk(session, given.path) if given.recursive else [given.path]:
        if (found := answer(zk.get_acl(path))) is None:
            continue
        before, stat = found
        after = changed_acl(before, given)
        if after == before:
            continue
        if not after:
            raise Refused(f"{path}: no entry would be left")
        if given.yes and answer(zk.set_acl(path, after, stat.aversion)) is None:
            continue
        changed += 1
        show(one_line(f"{path}: {nodes.acl_text(before)} -> {nodes.acl_text(after)}"))
    what = "changed" if given.yes else "would change; --yes writes it"
    say(f"{counted(changed, 'ACL')} {what}")
    return 0


def changed_acl(before: Sequence[Acl], given: Any) -> tuple[Acl, ...]:
    """The ACL that a command line makes of another one."""
    if given.set:
        return tuple(given.set)
    if given.add:
        added = {(each.scheme, each.id) for each in given.add}
        return (*[each for each in before if (each.scheme, each.id) not in added], *given.add)
    scheme, _, name = given.remove.partition(":")
    return tuple([each for each in before if (each.scheme, each.id) != (scheme, name)])


def _shell(session: Client, given: Any) -> int:
    shell = Shell(session)
    if given.words:
        return shell.run_line(given.words)
    return shell.run()


_COMMANDS: dict[str, Callable[[Client, Any], int]] = {
    "create": _create,
    "set": _set,
    "delete": _delete,
    "rmr": _rmr,
    "acl": _acl,
    "shell": _shell,
}
