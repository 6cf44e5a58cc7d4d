"""The tree that a command reads from etcd and changes as a client: --server must serve the same one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from cli.client import Client, Refused, connected
from proxy.state.machine import Machine

Written: TypeAlias = tuple[Machine, Client | None]


@contextmanager
def tree_to_write(given: Any, made: Any, load: Callable[[], Machine]) -> Iterator[Written]:
    """The tree that `load` reads from etcd; with --yes also a session of --server, else None.

    The session begins before the tree is read, so a server of this tree has put it there: its id and its
    password are random. `made` is the parser, as for `connected`. Raises Refused.
    """
    if not given.yes:
        yield load(), None
        return
    client = connected(given, made)
    try:
        with client.kept_alive():
            machine = load()
        session = machine.sessions.get(client.granted.session)
        if session is None or not session.is_proved_by(client.granted.password):
            raise Refused(
                f"{client.server} does not serve the tree under {given.prefix}: the session that it gave"
                " is not in this tree. Name its server by --server, or another tree by --etcd and --prefix"
            )
        yield machine, client
    finally:
        client.close()
