"""Clients that write at random, each below a node of its own, and record what took effect.

In a window of requests each node has one at most, and each directory one create or delete. So after a lost
connection the nodes themselves say which of them took effect: the session has moved then, and what the
former proxy sends for it is refused.
"""

import random
import threading
import time
from collections.abc import Sequence
from typing import Any

from codec.jute import Acl, Reader
from lab.client import requests
from lab.client.blocking import EPHEMERAL, PERSISTENT, Client, Disconnected
from lab.client.requests import Request, Stat
from proof.past.model import OPEN, Write

ROOT = "/proof"
_WINDOW = 40
_DIRECTORIES = 25
_NODES = 6  # of a directory, about
_ACLS = (OPEN, (*OPEN, (1, "digest", "x:y")))
_RETRY = 0.1  # seconds


class Writer:
    """One client, in a thread."""

    def __init__(self, number: int, ports: Sequence[int], seed: int, most: int) -> None:
        self.writes: list[Write] = []
        self.lost = 0  # connections
        #: After which zxid the ACL of a node is not known: a setACL had no reply.
        self.doubts: dict[str, int] = {}
        self._answered = 0  # the last zxid with a reply
        self.error: BaseException | None = None
        self._random = random.Random(f"{seed}/{number}")
        self._ports = ports
        self._most = most
        self._base = f"{ROOT}/w{number}"
        self._children: dict[str, list[str]] = {}
        self._names = 0
        self._client = Client(self._random.choice(ports))
        self._thread = threading.Thread(target=self._guarded)
        above = [self._base, *(f"{self._base}/d{number}" for number in range(_DIRECTORIES))]
        for path in above:
            self._do([self._create(path, 0)])
        self._children = {path: [] for path in above[1:]}

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end. Raises what went wrong."""
        self._thread.join()
        self._client.drop()
        if self.error is not None:
            raise self.error

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - `join` raises it
            self.error = error

    def _run(self) -> None:
        while len(self.writes) < self._most:
            self._do(self._window())
            self._client.log.clear()

    # -- what is sent ----------------------------------------------------------------------------------------

    def _window(self) -> list[tuple[Write, Request[Any]]]:
        chosen = []
        for above in self._random.sample(sorted(self._children), _DIRECTORIES):
            children = self._children[above]
            if self._random.random() < 0.5:
                if len(children) < _NODES or self._random.random() < 0.5:
                    self._names += 1
                    owner = self._client.id if self._random.random() < 0.2 else 0
                    chosen.append(self._create(f"{above}/n{self._names}", owner))
                else:
                    path = self._random.choice(children)
                    chosen.append((Write(0, "delete", path), requests.delete(path)))
                    children = [each for each in children if each != path]
            chosen += [self._change(path) for path in children if self._random.random() < 0.4]
        self._random.shuffle(chosen)
        return chosen[:_WINDOW]

    def _create(self, path: str, owner: int) -> tuple[Write, Request[Any]]:
        data = self._data()
        mode = EPHEMERAL if owner else PERSISTENT
        return Write(0, "create", path, data, owner=owner), requests.create(path, data, mode)

    def _change(self, path: str) -> tuple[Write, Request[Any]]:
        if self._random.random() < 0.1:
            acl = self._random.choice(_ACLS)
            wanted = tuple(Acl(*each) for each in acl)
            return Write(0, "acl", path, acl=acl), requests.set_acl(path, wanted)
        data = self._data()
        return Write(0, "set", path, data), requests.set_data(path, data)

    def _data(self) -> bytes:
        """Never twice the same, so that it shows which write took effect."""
        return self._random.randbytes(self._random.choice((12, 12, 100, 1000)))

    # -- what became of it -----------------------------------------------------------------------------------

    def _do(self, wanted: list[tuple[Write, Request[Any]]]) -> None:
        answered = 0
        try:
            for xid in self._client.send(*(request for _, request in wanted)):
                reply = self._client.reply_to(xid)
                write, request = wanted[answered]
                assert reply.err == 0, f"{write.kind} {write.path}: error {reply.err}"
                answer = request.read(Reader(reply.body))
                moment = answer.mtime if write.kind == "set" else None
                answered += 1
                self._answered = reply.zxid
                self._note(write._replace(zxid=reply.zxid, time=moment))
        except Disconnected:
            self.lost += 1
            self._find_out([write for write, _ in wanted[answered:]])

    def _note(self, write: Write) -> None:
        self.writes.append(write)
        above, _, _ = write.path.rpartition("/")
        if above in self._children:
            if write.kind == "create":
                self._children[above].append(write.path)
            elif write.kind == "delete":
                self._children[above].remove(write.path)

    def _find_out(self, unanswered: Sequence[Write]) -> None:
        """Move the session, and look which writes took effect."""
        found: list[Write | None] = []
        while True:
            try:
                self._client.reconnect(self._random.choice(self._ports))
                self._client.sync()
                found = [self._outcome(write) for write in unanswered]
                break
            except (Disconnected, OSError) as error:
                if isinstance(error, Disconnected) and error.expired:
                    raise
                time.sleep(_RETRY)
        for write in sorted(each for each in found if each is not None):
            self._note(write)

    def _outcome(self, write: Write) -> Write | None:
        """The write with its zxid; None if it did not take effect."""
        stat: Stat | None = self._client.stat(write.path)
        if write.kind == "create":
            return None if stat is None else write._replace(zxid=stat.czxid, time=stat.mtime)
        if write.kind == "delete":
            above = self._client.stat(write.path.rpartition("/")[0])
            assert above is not None
            return None if stat is not None else write._replace(zxid=above.pzxid)
        assert stat is not None
        if write.kind == "set":
            is_done = self._client.read(write.path).data == write.data
            return write._replace(zxid=stat.mzxid, time=stat.mtime) if is_done else None
        self.doubts.setdefault(write.path, self._answered)  # setACL leaves no zxid
        return None
