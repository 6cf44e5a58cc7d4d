"""`GET /changes` on the admin port: what changes in the tree, as it changes.

What is recent is recorded where it is applied (`proxy.log.recent`). Older changes are replayed by a child
process (`archive.past.feed`), until its reader has reached the recent ones. Who may ask is as for the tables.
"""

import json
import time
from contextlib import suppress
from typing import Any, NamedTuple

from aiohttp import web

from console.http import Console
from console.people import guard
from console.people.logins import Call, Refused
from console.tables import Source, error_answer, identities_of, login_headers
from proxy.state.feed import EVENTS, Id, Selection, id_of
from proxy.support import child
from proxy.support.spawn import Child
from schema.paths import is_valid

_MODULE = "archive.past.feed"
_PARAMETERS = ("data", "path", "since")
_CHUNK = 1 << 16
_AT_ONCE = 1 << 18  # bytes of changes that are made to lines together
_LOOKED_AT = 512  # changes between two pauses, if none of them is wanted


class FeedLimits(NamedTuple):
    """How many feeds a proxy has, and how long they wait."""

    most: int = 16  # feeds at a time
    most_past: int = 2  # of them, that read the log: each needs the memory of a proxy
    mark: float = 10.0  # seconds without a line until one says up to where there was nothing
    look: float = 1.0  # seconds until a feed without news looks whether it has to end
    ahead: float = 5.0  # seconds that this proxy has to reach a zxid that another one has shown


LIMITS = FeedLimits()


class Feeds:
    """The feeds of one proxy."""

    def __init__(self, console: Console, source: Source, limits: FeedLimits = LIMITS) -> None:
        self.limits = limits
        self.console = console
        self.source = source
        self.reading = console.api.reading
        self.recent = console.api.reading.subject.source.recent
        self.stats = console.api.reading.subject.feeds
        self.stopped = False
        self._open = 0
        self._past = 0

    @property
    def routes(self) -> list[web.RouteDef]:
        """For the admin server."""
        return [web.get("/changes", self._answer, allow_head=False)]

    def stop(self) -> None:
        """The admin port closes: end all feeds."""
        self.stopped = True
        if self.recent is not None:
            self.recent.wake()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            call = await self.console.call_from_outside(request)
            wanted, since = _asked(request, call)
            if self.recent is None:
                raise Refused(400, "this server shows the past, in which nothing changes")
            self.reading.demand_serving()
            if self._open >= (most := self.limits.most):
                self.stats.refused += 1
                raise Refused(503, f"this proxy has {most} feeds, which is the most: use another one")
            self._open += 1
            try:
                return await self._fed(request, call, wanted, since)
            finally:
                self._open -= 1
        except Refused as error:
            more = {"oldest": error.oldest} if isinstance(error, _Gone) else {}
            return error_answer(error.status, str(error), login_headers(error.status), **more)

    async def _fed(
        self, request: web.Request, call: Call, wanted: Selection, since: Id | None
    ) -> web.StreamResponse:
        recent = self.recent
        assert recent is not None
        try:
            await recent.open()
            if since is None:
                since = Id(recent.zxid)
            deadline = time.monotonic() + self.limits.ahead
            while since.zxid > recent.zxid:
                if time.monotonic() > deadline:
                    raise Refused(
                        409, f"since={since} is in the future: this proxy has applied 0x{recent.zxid:x}"
                    )
                await recent.news(0.1)
            feed = _Feed(self, request, call, wanted, since)
            self.stats.open.append(feed)
            try:
                return await feed.run()
            finally:
                self.stats.open.remove(feed)
                await feed.close()
        finally:
            recent.close()

    # -- children --------------------------------------------------------------------------------------------

    async def replay(self, wanted: Selection, after: Id) -> Child:
        """A child that writes what is behind a place. Raises Refused; `end_replay` has to follow."""
        if self._past >= (most := self.limits.most_past):
            self.stats.refused += 1
            raise Refused(503, f"{most} feeds read older changes already: try again later")
        self._past += 1
        process = None
        serves = False
        try:
            process = await child.start(_MODULE, self._job(wanted, after))
            assert process.stdout is not None
            header: dict[str, Any] = json.loads(await process.stdout.readline())
            if serves := "error" not in header:
                return process
        except (OSError, ValueError) as error:
            header = {"status": 503, "error": f"the process that reads older changes has ended: {error}"}
        finally:
            if not serves:
                await self.end_replay(process)
        if header["status"] == 410:
            raise _Gone(header["error"], header.get("oldest"))
        raise Refused(header["status"], header["error"])

    async def end_replay(self, process: Child | None) -> None:
        """Such a child is not needed any more."""
        self._past -= 1
        if process is not None:
            await child.end(process)

    def _job(self, wanted: Selection, after: Id) -> dict[str, Any]:
        return {**self.source.tree_access, "url": self.source.url, "since": str(after), **wanted._asdict()}


class _Gone(Refused):
    """What is wanted is not kept any more."""

    def __init__(self, text: str, oldest: str | None) -> None:
        super().__init__(410, text)
        self.oldest = oldest


class _Feed:
    """One reader."""

    def __init__(self, feeds: Feeds, request: web.Request, call: Call, wanted: Selection, since: Id) -> None:
        self._feeds = feeds
        assert feeds.recent is not None
        self._recent = feeds.recent
        self._request = request
        self._call = call
        self._login = call.login
        self._wanted = wanted
        self._here = since  # the reader has everything up to here
        self._response = web.StreamResponse(headers={**guard.HEADERS, "Cache-Control": "no-store"})
        self._response.content_type = EVENTS if wanted.events else "application/x-ndjson"
        self._child: Child | None = None
        self._replacements = feeds.recent.replacements

    async def run(self) -> web.StreamResponse:
        """Feed until something ends it. Raises Refused before the first line."""
        response = self._response
        if self._is_behind:
            self._child = await self._feeds.replay(self._wanted, self._here)
        await response.prepare(self._request)
        with suppress(ConnectionError):
            await response.write(self._wanted.mark(self._here))
            why = ""
            while not why:
                why = await (self._replayed() if self._is_behind else self._live())
            await response.write(self._wanted.last(self._here, why))
            await response.write_eof()
        return response

    async def close(self) -> None:
        """End the child."""
        if self._child is not None:
            process, self._child = self._child, None
            await self._feeds.end_replay(process)

    @property
    def behind(self) -> int:
        """How many zxids its reader was not sent yet."""
        return max(0, self._recent.zxid - self._here.whole)

    @property
    def _is_behind(self) -> bool:
        return self._here.whole < self._recent.floor

    @property
    def _gone(self) -> str:
        """Why nothing will change any more here, once all that has changed is recorded; "" before."""
        subject = self._feeds.reading.subject
        gone = subject.contact.why_gone
        return "" if subject.log_status().backlog and not self._feeds.stopped else gone

    def _why_end(self) -> str:
        """Why the feed has to end; "" if it has not."""
        if gone := self._gone:
            return gone
        if self._recent.replacements != self._replacements:
            return "this proxy has loaded its state anew: go on"
        if self._feeds.stopped:
            return "this proxy stops: go on at another proxy"
        if self._login.is_over:
            return "the login is over: log in again, and go on"
        try:
            self._feeds.reading.demand_serving()
        except Refused as error:
            return f"{error}: go on at another proxy"
        if self._call.is_gone():
            raise ConnectionError
        return ""

    async def _live(self) -> str:
        """The recent changes, until the reader is behind, or why the feed ends."""
        recent, pace, limits = self._recent, self._feeds.reading.pace(self._call), self._feeds.limits
        written = time.monotonic()
        while not self._is_behind:
            why, found = self._why_end(), recent.after(self._here.whole, _AT_ONCE)
            if why and not (found and self._gone):  # what lies before a seal is sent
                return why
            if not found:
                self._here = max(self._here, Id(recent.zxid))
                if time.monotonic() - written >= limits.mark:
                    await self._response.write(self._wanted.mark(self._here))
                    written = time.monotonic()
                await recent.news(limits.look)
                await pace.rest()
                continue
            lines = bytearray()
            for made in found:
                left = made.left(self._here)
                for begin in range(0, len(left), _LOOKED_AT):
                    for here, pieces in self._wanted.pieces(made, left[begin : begin + _LOOKED_AT]):
                        for piece in pieces:
                            lines += piece
                            await pace.rest()
                            if len(lines) >= _CHUNK:
                                await self._response.write(bytes(lines))
                                lines.clear()
                        self._feeds.stats.sent += 1
                        self._here = here
                    await pace.rest()
                self._here = Id(made.zxid)
            if lines:
                await self._response.write(bytes(lines))
                written = time.monotonic()
        return ""

    async def _replayed(self) -> str:
        """Older changes, until the reader has reached the recent ones, or why the feed ends."""
        try:
            process = self._child = self._child or await self._feeds.replay(self._wanted, self._here)
        except Refused as error:
            return f"{error}: go on behind {self._here}"
        assert process.stdin is not None
        assert process.stdout is not None
        while not (why := self._why_end()):
            try:
                header = json.loads(await process.stdout.readline())
                lines = await process.stdout.readexactly(header["bytes"])
            except (ValueError, EOFError):
                return "the process that reads older changes has ended: go on"
            if lines:
                await self._response.write(lines)
            self._feeds.stats.sent += header["changes"]
            self._here = id_of(header["id"])
            if "end" in header:
                return f"{header['end']}: go on"
            if "caught_up" in header:
                if not self._is_behind:
                    await self.close()
                    return ""
                with suppress(ConnectionError):
                    process.stdin.write(b"\n")
                    await process.stdin.drain()
        return why


def _asked(request: web.Request, call: Call) -> tuple[Selection, Id | None]:
    """Which changes, and where they begin: None for now. Raises Refused."""
    query = request.query
    for name in query:
        if name not in _PARAMETERS:
            raise Refused(400, f"unknown parameter {name[:80]!r}: /changes has {', '.join(_PARAMETERS)}")
        if len(query.getall(name)) > 1:
            raise Refused(400, f"{name} is given more than once")
    path, data = query.get("path", "/"), query.get("data", "no")
    if not is_valid(path):
        raise Refused(400, f"path={path[:200]!r} is no path of a node, such as /a/b")
    if data not in ("yes", "no"):
        raise Refused(400, f"data={data[:80]!r} is neither yes nor no")
    # A browser's EventSource asks again with the id of the last event.
    since = request.headers.get("Last-Event-ID") or query.get("since")
    events = EVENTS in request.headers.get("Accept", "")
    try:
        begin = None if since is None else id_of(since)
    except ValueError as error:
        raise Refused(400, f"since: {error}") from None
    return Selection(path, data == "yes", identities_of(call), events), begin
