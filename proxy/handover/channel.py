"""The socket between the process that serves and the one that takes over: messages, with other sockets."""

import array
import asyncio
import json
import os
import socket
from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

#: The environment variable by which a new process knows its end of the socket pair.
VARIABLE = "_ZKETCD_TAKE_OVER"
#: And the one by which it knows the numbers of the ports that it will get: a JSON object, by name.
PORTS = "_ZKETCD_PORTS"
_HEADER = Struct(">II")  # bytes, and sockets
_MOST_BYTES = 1 << 30
_SHOWN = 20  # characters of a wrong variable
MOST_SOCKETS = 100  # of one message; Linux takes 253


class HandoverError(Exception):
    """The other process has ended or is late, or has said something else than expected."""


class Message(NamedTuple):
    """What one process says to the other."""

    kind: str
    fields: dict[str, Any]
    fds: list[int]


def inherited_ports(environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """The ports that the old process holds. Raises ValueError."""
    return {str(name): int(port) for name, port in json.loads(environment.get(PORTS, "{}")).items()}


class Channel:
    """One end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def inherited(cls, environment: Mapping[str, str] = os.environ) -> "Channel | None":
        """The end that the process which serves has passed on; None if this process was started otherwise.

        Raises HandoverError.
        """
        given = environment.get(VARIABLE, "")
        if not given:
            return None
        try:
            end = socket.socket(fileno=int(given))
        except (OSError, OverflowError, ValueError):
            what = f"{VARIABLE}={given[:_SHOWN]} is no socket of a process that serves: unset it"
            raise HandoverError(what) from None
        end.set_inheritable(False)
        return cls(end)

    def close(self) -> None:
        """The other process sees this as an end."""
        self._end.close()

    def leave_open(self) -> None:
        """From now on the other process sees an end only when this process ends."""
        self._end.detach()

    async def ended(self) -> None:
        """Wait until the other process has ended."""
        self._end.settimeout(None)
        await asyncio.to_thread(self._end.recv, 1)

    async def send(
        self, kind: str, fds: list[int] | None = None, timeout: float = 10.0, **fields: Any
    ) -> None:
        """Send one message. Raises HandoverError if the other process is gone."""
        await asyncio.to_thread(self._send, Message(kind, fields, _copies(fds or [])), timeout)

    async def receive(self, *kinds: str, timeout: float | None = 10.0) -> Message:
        """Wait for a message of one of these kinds. Raises HandoverError for the end, or for another one."""
        return await asyncio.to_thread(self._receive_one, kinds, timeout)

    def _send(self, message: Message, timeout: float) -> None:
        kind, fields, fds = message
        self._end.settimeout(timeout)
        try:
            body = json.dumps({"kind": kind, **fields}).encode()
            socket.send_fds(self._end, [_HEADER.pack(len(body), len(fds))], fds)
            self._end.sendall(body)
        except OSError as error:
            raise HandoverError(f"the other process cannot be reached: {error}") from error
        finally:
            for fd in fds:
                os.close(fd)

    def _receive_one(self, kinds: tuple[str, ...], timeout: float | None) -> Message:
        wanted = " or ".join(map(repr, kinds))
        self._end.settimeout(timeout)
        try:
            message = self._receive()
        except (OSError, ValueError, KeyError) as error:
            raise HandoverError(f"no {wanted} from the other process: {error}") from error
        if message.kind not in kinds:
            raise HandoverError(f"the other process has said {message.kind!r}, not {wanted}")
        return message

    def _receive(self) -> Message:
        # A child that inherits a socket keeps it open: its client would not see that it was closed here.
        head, data, _, _ = self._end.recvmsg(
            _HEADER.size, socket.CMSG_SPACE(MOST_SOCKETS * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
        )
        fds = array.array("i")
        for level, kind, value in data:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
        length, count = _HEADER.unpack(head + self._exactly(_HEADER.size - len(head)))
        if length > _MOST_BYTES or count != len(fds):
            raise ValueError(f"a message of {length} bytes with {len(fds)} of {count} sockets")
        fields = json.loads(self._exactly(length))
        return Message(fields.pop("kind"), fields, list(fds))

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._end.recv(min(count, 1 << 20))
            if not part:
                raise ValueError("it has ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _copies(fds: list[int]) -> list[int]:
    """Other numbers of the same sockets: a thread sends them, and a client may go meanwhile.

    Raises HandoverError.
    """
    made: list[int] = []
    try:
        made.extend(map(os.dup, fds))
    except OSError as error:
        for fd in made:
            os.close(fd)
        raise HandoverError(f"the clients' sockets cannot be passed on: {error}") from error
    return made
