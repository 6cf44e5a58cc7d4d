"""What has become of a state since the last entry for its copy: changed znodes, and sessions."""

from proxy.state.machine import Machine
from proxy.state.sessions import NO_HOLDER
from schema.followed import Followed
from schema.pages import SessionValue
from schema.paths import parent_of
from schema.znode import Znode


class Changed:
    """Notes what changes, until `take`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._start()

    def _start(self) -> None:
        self._after = self._machine.zxid
        self._changed: set[str] = set()  # nodes that exist
        self._data: set[str] = set()  # of these, those with other data than before
        self._acls: set[str] = set()  # of these, those with another ACL than before
        self._made: set[str] = set()  # of these, new ones
        self._deleted: set[str] = set()  # nodes that existed before
        self._opened: set[int] = set()
        self._closed: set[int] = set()
        #: Whether a session's id was used again. An entry would delete the new one's ephemerals.
        self.reused = False

    @property
    def pending(self) -> bool:
        """Whether there is anything to take."""
        return self._machine.zxid != self._after

    def created(self, path: str) -> None:
        """A node was created."""
        self._changed.update((parent_of(path), path))
        self._data.add(path)
        self._acls.add(path)
        if path in self._deleted:
            self._deleted.discard(path)
        else:
            self._made.add(path)

    def deleted(self, path: str) -> None:
        """A node was deleted."""
        self._changed.add(parent_of(path))
        self._changed.discard(path)
        self._data.discard(path)
        self._acls.discard(path)
        if path in self._made:
            self._made.discard(path)
        else:
            self._deleted.add(path)

    def data(self, path: str) -> None:
        """A node has other data."""
        self._changed.add(path)
        self._data.add(path)

    def acl(self, path: str) -> None:
        """A node has another ACL."""
        self._changed.add(path)
        self._acls.add(path)

    def stat(self, path: str) -> None:
        """A node has another Stat."""
        self._changed.add(path)

    def opened(self, session_id: int) -> None:
        """A session has begun."""
        self._opened.add(session_id)
        self.reused = self.reused or session_id in self._closed

    def closed(self, session_id: int) -> None:
        """A session has ended."""
        if session_id in self._opened:
            self._opened.discard(session_id)
        else:
            self._closed.add(session_id)

    def has_closed(self, session_id: int) -> bool:
        """Whether a session that existed before has ended."""
        return session_id in self._closed

    def take(self) -> Followed:
        """What has changed since the last time."""
        sessions = self._machine.sessions
        data, acls = self._data, self._acls
        taken = Followed(
            self._after,
            self._machine.zxid,
            sorted(self._deleted, reverse=True),
            self._values(data & acls, data=True, acl=True),
            self._values(data - acls, data=True),
            self._values(acls - data, acl=True),
            self._values(self._changed - data - acls),
            [
                SessionValue(session.id, session.timeout_ms, session.password_hash, NO_HOLDER)
                for session in (sessions[session_id] for session_id in sorted(self._opened))
            ],
            sorted(self._closed),
        )
        self._start()
        return taken

    def _values(self, paths: set[str], *, data: bool = False, acl: bool = False) -> list[tuple[str, Znode]]:
        found = []
        for path in sorted(paths):
            all_data, all_acl, *stat = self._machine.tree.nodes[path].fields()
            found.append((path, Znode(all_data if data else None, all_acl if acl else (), *stat)))
        return found
