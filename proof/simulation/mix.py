"""What a client asks for: registers that all write, queues with counters, locks that end."""

from random import Random

from proof.history import (
    AddWatch,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    SetData,
    Sync,
)
from proof.history.records import SYSTEM_ERROR, Request

REGISTERS, QUEUES, LOCKS = "/r", "/q", "/l"
ROOTS = (REGISTERS, QUEUES, LOCKS)
_NAMES = "abcd"
_DELETED = 20  # nodes at a time that a client deletes where creates are refused


class Mix:
    """The requests of one client, by chance and by what it has seen."""

    def __init__(self, rng: Random, name: str) -> None:
        #: The versions of nodes as it saw them last.
        self.versions: dict[str, int] = {}
        #: Sequential and ephemeral nodes that its session has made.
        self.own: list[str] = []
        self._room: list[Request] = []  # what it does first, to make room
        self._lacks_room = False
        self._random = rng
        self._name = name
        self._values = 0

    def _value(self) -> bytes:
        self._values += 1
        return f"{self._name}:{self._values}".encode()

    def missing_roots(self) -> list[Request]:
        """Creates of the roots that it has not seen; asked for once."""
        missing = [root for root in ROOTS if root not in self.versions]
        self.versions.update(dict.fromkeys(missing, 0))
        return [Create(root) for root in missing]

    def learn(self, request: Request, answer: Reply, failed: int = 0) -> None:
        """Note what an answer has shown. `failed`: its first error."""
        if failed:
            if failed == SYSTEM_ERROR and not self._room:  # etcd may be nearly full: what is left over goes
                self._room, self._lacks_room = [GetChildren(QUEUES)], True
            return
        match request:
            case GetChildren(path) if path == QUEUES and self._lacks_room:
                names = sorted(answer.names or ())
                self._room = [
                    Delete(f"{QUEUES}/{name}")
                    for name in self._random.sample(names, min(_DELETED, len(names)))
                ]
                self._lacks_room = False
            case Create(_, _, ephemeral, sequential) if (ephemeral or sequential) and answer.path is not None:
                self.own.append(answer.path)
            case GetData(path) | Exists(path) | SetData(path):
                if answer.stat is not None and answer.stat.version is not None:
                    self.versions[path] = answer.stat.version

    def write(self) -> Request:
        """What it does to show that it works: a write that succeeds, or first what makes room for it."""
        if self._room:
            return self._room.pop()
        return Create(f"{QUEUES}/u-", self._value(), sequential=True)

    def read(self) -> Request:
        """A request of a client that only reads."""
        rng = self._random
        path = f"{REGISTERS}/{rng.choice(_NAMES)}"
        watch = rng.random() < 0.3
        match rng.randrange(4):
            case 0:
                return GetChildren(rng.choice(ROOTS), watch)
            case 1:
                return Exists(path, watch)
            case _:
                return GetData(path, watch)

    def any(self) -> Request:
        """Any request."""
        if self._room:
            return self._room.pop()
        rng = self._random
        value = self._value()
        path = f"{REGISTERS}/{rng.choice(_NAMES)}"
        version = self.versions.get(path, 0) if rng.random() < 0.5 else -1
        watch = rng.random() < 0.3
        match rng.randrange(22):
            case 0 | 1 | 2:
                return SetData(path, value, version)
            case 3 | 4:
                return Create(path, value)
            case 5:
                return Delete(path, version)
            case 6 | 7:
                return Create(f"{QUEUES}/n-", value, sequential=True)
            case 8 | 9:
                return Create(f"{LOCKS}/e-", value, ephemeral=True, sequential=True)
            case 10:
                return Create(f"{LOCKS}/{rng.choice(_NAMES)}", value, ephemeral=True)
            case 11 | 12:
                if self.own:
                    return Delete(self.own.pop(rng.randrange(len(self.own))))
                return Delete(f"{LOCKS}/{rng.choice(_NAMES)}")
            case 13:
                other = f"{REGISTERS}/{rng.choice(_NAMES)}"
                return Multi(
                    (
                        Check(path, version),
                        SetData(path, value),
                        Create(f"{QUEUES}/m-", value, sequential=True),
                        SetData(other, value),
                    )
                )
            case 14:
                return Multi(
                    (
                        Create(path, value),
                        Delete(path),
                        Create(f"{LOCKS}/m-", value, ephemeral=True, sequential=True),
                    )
                )
            case 15:
                return GetChildren(rng.choice(ROOTS), watch)
            case 16:
                return Exists(path, watch)
            case 17:
                return Sync(path)
            case 18 if rng.random() < 0.2:
                return AddWatch(rng.choice(ROOTS), recursive=rng.random() < 0.5)
            case _:
                return GetData(path, watch)
