"""What was: the answers of the archive. A child process finds them (`past_worker`): no client waits for that.

There is one child, with one question at a time. It ends after a minute without a question, and is killed when
an answer takes too long. Its memory is that of one tree.
"""

import asyncio
import json
import logging
import re
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from console.answers import arguments
from console.answers.reading import Reading
from console.people.logins import Body, Call, Refused
from proxy.support import child
from proxy.support.addresses import reachable_address
from proxy.support.environment import clock_ms
from proxy.support.spawn import Child
from schema.record import Home

log = logging.getLogger(__name__)

_MODULE = "console.answers.past_worker"
_TIMEOUT = 120.0  # seconds for an answer
_IDLE = 60.0  # seconds without a question until the child ends
_MOST_WAITING = 8
_MOST_EVENTS = 300  # of one history
_DAY = 86_400_000
_MOST_BYTES = 16 << 20  # of one answer


class ArchivePlace(NamedTuple):
    """Where the archive is, and what a command line needs that uses it."""

    url: str
    etcd: tuple[str, ...] = ()
    prefix: str = ""


class Past:
    """The answers about the past of one tree."""

    def __init__(self, reading: Reading, place: ArchivePlace) -> None:
        self._reading = reading
        self._place = place
        self._child: Child | None = None
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._used = 0.0
        self._ending: asyncio.Task[None] | None = None

    async def span(self, _call: Call) -> Body:
        """From when to when the archive has the tree."""
        return await self._ask({"ask": "span"})

    async def history(self, call: Call) -> Body:
        """The last changes of a znode."""
        path = arguments.valid_path(call.query)
        exists = path in self._reading.subject.machine.tree.nodes
        if exists:
            self._reading.node(path, call.login.identities)  # may it be read?
        days = arguments.number({"days": _whole(call.query.get("days", "7"))}, "days", 7)
        since = None if not days else clock_ms() - days * _DAY
        return await self._ask(
            {
                "ask": "history",
                "path": path,
                "exists": exists,
                "sinceMs": since,
                "limit": _MOST_EVENTS,
                "identities": call.login.identities,
            }
        )

    async def node(self, call: Call) -> Body:
        """A znode as it was at a moment, if its ACL of that moment permits that."""
        path = arguments.valid_path(call.query)
        at = _moment(call)
        return await self._ask({"ask": "node", "path": path, "at": at, "identities": call.login.identities})

    async def revert(self, call: Call) -> Body:
        """The command that brings a subtree back."""
        path = arguments.valid_path(call.query)
        at = _moment(call)
        return {"command": self._command(path, at)}

    def _command(self, path: str, at: int | str) -> str:
        url, etcd, prefix = self._place
        subject = self._reading.subject
        status = subject.log_status()
        own = status.living.get(status.incarnation)
        words = ["zketcd", "revert", path, "--to", _shown(at) if isinstance(at, int) else at]
        words += ["--archive", url if "://" in url else str(Path(url).absolute())]
        # A user and a password in an address are not for all users of this page.
        words += ["--etcd", ",".join(re.sub(r"//[^/@]*@", "//", each) for each in etcd)] if etcd else []
        words += ["--prefix", prefix] if prefix else []
        home = own.value.home if own else Home()
        server = reachable_address(home.listen, home.host) if home.listen else ""
        words += ["--server", server or f"127.0.0.1:{subject.ports.number}"]
        return shlex.join(words)

    # -- the child -------------------------------------------------------------------------------------------

    async def _ask(self, question: dict[str, Any]) -> Body:
        if self._waiting >= _MOST_WAITING:
            raise Refused(503, "other questions about the past are waiting: try again later")
        self._waiting += 1
        try:
            async with self._lock:
                answer = await self._answered(question)
        finally:
            self._waiting -= 1
        if "ok" not in answer:
            raise Refused(answer["status"], answer["error"])
        found: Body = answer["ok"]
        return found

    async def _answered(self, question: dict[str, Any]) -> dict[str, Any]:
        whole = False
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._child is None or self._child.returncode is not None:
                    self._child = await child.start(_MODULE, {"url": self._place.url})
                assert self._child.stdin is not None
                assert self._child.stdout is not None
                self._child.stdin.write(json.dumps(question).encode() + b"\n")
                await self._child.stdin.drain()
                line = await _line(self._child.stdout)
            answer: dict[str, Any] = json.loads(line)
            whole = True
        except TimeoutError:
            raise Refused(504, f"the archive did not answer within {_TIMEOUT:.0f} s") from None
        except (OSError, ValueError) as error:
            log.warning("console: the process that reads the archive has ended: %s", error)
            raise Refused(503, "the archive could not be read: see the log of this proxy") from None
        finally:
            # An answer that was not read would be taken for the next one.
            if not whole:
                await self._end()
        self._used = asyncio.get_running_loop().time()
        if self._ending is None or self._ending.done():
            self._ending = asyncio.get_running_loop().create_task(self._end_when_idle())
        return answer

    async def _end_when_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while self._child is not None:
            await asyncio.sleep(max(0.1, self._used + _IDLE - loop.time()))
            async with self._lock:
                if loop.time() >= self._used + _IDLE:
                    await self._end()

    async def _end(self) -> None:
        ended, self._child = self._child, None
        if ended is not None:
            await child.end(ended)

    async def close(self) -> None:
        """End the child."""
        if self._ending is not None:
            self._ending.cancel()
            with suppress(asyncio.CancelledError):
                await self._ending
        await self._end()


async def _line(stream: asyncio.StreamReader) -> bytes:
    """One line of any length. Raises ValueError."""
    found = bytearray()
    while not found.endswith(b"\n"):
        more = await stream.read(1 << 16)
        if not more:
            raise ValueError("its output ended")
        found += more
        if len(found) > _MOST_BYTES:
            raise ValueError(f"its answer has more than {_MOST_BYTES >> 20} MiB")
    return bytes(found)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise Refused(400, "days is a number of days, 0 for all")
    return int(text)


def _moment(call: Call) -> int | str:
    """`at`: milliseconds since 1970, or a zxid in hexadecimal."""
    text = call.query.get("at", "")
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text):
        return text
    raise Refused(400, "at is a time in milliseconds since 1970, or a zxid such as 0x1f")


def _shown(ms: int) -> str:
    """A time as commands take it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}Z"
