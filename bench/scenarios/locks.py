"""Locks that change hands, by ZooKeeper's recipe: an ephemeral sequential node, a watch on the one before it.

Each client takes one of a few locks, gives it back at once and queues up again. What is measured is the time
from asking for a lock to having it, and how many locks a second change hands.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench import wire
from bench.errors import BadReply, EffectsDiffer, Stalled
from bench.load import STALL_SECONDS, Admin, Timing, open_sessions

LOCKS = 4
"""How many locks the clients share."""
EPHEMERAL_SEQUENTIAL = 3
_NOTIFICATION = -1


class Client:
    """One client in the queue of one lock: a state machine over its socket."""

    def __init__(self, sock: socket.socket, lock: bytes) -> None:
        self.socket = sock
        self.samples: list[tuple[int, int]] = []
        self.idle = True  # it has given its lock back, and asks for none
        self._lock = lock
        self._buffer = b""
        self._xid = 0
        self._node = b""
        self._asked = 0
        self._expect = ""  # the reply that comes next: created, listed, watched, deleted
        self._waits = False  # for the node before its own to go

    def ask(self) -> None:
        """Queue up for the lock."""
        self.idle = False
        self._asked = time.perf_counter_ns()
        self._call("created", wire.CREATE, wire.create_body(self._lock + b"/n-", b"", EPHEMERAL_SEQUENTIAL))

    def receive(self) -> None:
        """Take what has come, and continue."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise Stalled("the server closed a connection")
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + wire.INT.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            _, xid, _zxid, error = wire.REPLY.unpack_from(frame)
            if xid == _NOTIFICATION:
                self._notified()
            elif xid != self._xid:
                raise BadReply(f"xid {xid} (sent {self._xid})")
            else:
                self._answered(error, frame[wire.REPLY_SIZE :])

    def _answered(self, error: int, body: bytes) -> None:
        if error and not (self._expect == "watched" and error == wire.NO_NODE):
            raise BadReply(f"{self._expect}: error {error}")
        if self._expect == "created":
            self._node = body[4:]
            self._list()
        elif self._expect == "listed":
            names = sorted(wire.decode_names(body))
            place = names.index(self._node.rpartition(b"/")[2])
            if place:
                self._waits = True
                self._call("watched", wire.GET_DATA, wire.text(self._lock + b"/" + names[place - 1]) + b"\1")
            else:
                self.samples.append((time.perf_counter_ns() - self._asked, 1))
                self._call("deleted", wire.DELETE, wire.delete_body(self._node))
        elif self._expect == "watched":
            self._expect = ""
            if error:
                self._waits = False
                self._list()
        else:
            self.idle = True

    def _notified(self) -> None:
        if self._waits:
            self._waits = False
            self._list()

    def _list(self) -> None:
        self._call("listed", wire.GET_CHILDREN, wire.read_body(self._lock))

    def _call(self, expect: str, opcode: int, body: bytes) -> None:
        self._xid += 1
        self._expect = expect
        self.socket.sendall(wire.packet(self._xid, opcode, body))


def hand_round(ports: Sequence[int], count: int, seconds: float, root: bytes) -> Timing:
    """`count` clients, spread over the servers, pass the locks round for so long.

    Raises EffectsDiffer if a node of the queue is left behind.
    """
    locks = [root + b"/%d" % number for number in range(LOCKS)]
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(ports[0]))
        admin.call_many((wire.CREATE, wire.create_body(path, b"")) for path in (root, *locks))
        clients = []
        for index, port in enumerate(ports):
            with Admin(port) as other:
                other.call(wire.SYNC, wire.text(root))
                other.close_session()
            mine = range(index, count, len(ports))
            sockets = stack.enter_context(open_sessions(port, len(mine)))
            # The clients of one lock sit at different servers.
            clients += [
                Client(sock, locks[(number + number // len(ports) * (len(ports) > 1)) % LOCKS])
                for sock, number in zip(sockets, mine, strict=True)
            ]
        timing = _drive(clients, seconds)
        admin.call(wire.SYNC, wire.text(root))
        for path in locks:
            left = wire.decode_names(admin.call(wire.GET_CHILDREN, wire.read_body(path)))
            if left:
                raise EffectsDiffer(f"{path!r}: {len(left)} nodes are left in the queue")
        admin.close_session()
    return timing


def _drive(clients: Sequence[Client], seconds: float) -> Timing:
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        start = time.perf_counter()
        deadline = start + seconds
        for client in clients:
            client.ask()
        busy = len(clients)
        while busy:
            ready = selector.select(STALL_SECONDS)
            if not ready:
                raise Stalled(f"no lock changed hands for {STALL_SECONDS:.0f} s")
            for key, _ in ready:
                client = key.data
                client.receive()
                if client.idle:
                    if time.perf_counter() < deadline:
                        client.ask()
                    else:
                        busy -= 1
        finished = time.perf_counter()
        for client in clients:
            selector.unregister(client.socket)
    counts = [len(client.samples) for client in clients]
    return Timing(counts, finished - start, [sample for client in clients for sample in client.samples])
