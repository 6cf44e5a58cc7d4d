"""`GET /tree` and `GET /history` on the admin port: the tree as a table, made by a child process.

Who may ask, and which requests of browsers are refused, is as in the console; without a browser a user logs
in by HTTP's Basic authentication.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from console.people import guard
from console.people.logins import Call, Refused
from proxy.state.auth.scheme import Identities, Identity
from proxy.support.child import end, start
from proxy.support.spawn import Child
from schema.paths import is_valid

_MODULE = "archive.past.query"
_MOST = 2  # at a time: each needs the memory of a proxy
_CHUNK = 1 << 16
_FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_PARAMETERS = {"tree": {"path", "at", "format"}, "history": {"path", "since", "until", "recursive", "format"}}

Caller = Callable[[web.Request], Awaitable[Call]]


class Source(NamedTuple):
    """Where the tables come from."""

    tree_access: Mapping[str, Any]  # how a child reaches the tree
    url: str  # the archive; "" for none
    at: str  # the moment that this server shows; "" for the present


class Tables:
    """The two tables."""

    def __init__(self, source: Source, call: Caller) -> None:
        """`call`: who asks; raises Refused."""
        self._source = source
        self._call = call
        self._running = 0

    @property
    def routes(self) -> list[web.RouteDef]:
        """For the admin server."""
        return [web.get(f"/{name}", self._answer, allow_head=False) for name in _PARAMETERS]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            job = self._job(request, identities_of(await self._call(request)))
            if self._running >= _MOST:
                raise Refused(503, f"{_MOST} tables are being made: try again later")
        except Refused as error:
            return error_answer(error.status, str(error), login_headers(error.status))
        self._running += 1
        try:
            return await self._relayed(request, job)
        finally:
            self._running -= 1

    def _job(self, request: web.Request, identities: Identities) -> dict[str, Any]:
        """What the child does. Raises Refused."""
        table, query = request.path.lstrip("/"), request.query
        unknown = set(query) - _PARAMETERS[table]
        if unknown:
            known = ", ".join(sorted(_PARAMETERS[table]))
            raise Refused(400, f"unknown parameter {min(unknown)!r}: /{table} has {known}")
        path, form = query.get("path", "/"), query.get("format", "jsonl")
        at = query.get("at", self._source.at)
        if not is_valid(path):
            raise Refused(400, f"{path!r} is no path of a node, such as /a/b")
        if form not in _FORMATS:
            raise Refused(400, f"format={form!r}: it is one of {', '.join(_FORMATS)}")
        if (at or table == "history") and not self._source.url:
            raise Refused(400, "the past needs an archive: start the proxy with --archive")
        return {
            **self._source.tree_access,
            "url": self._source.url,
            "table": table,
            "path": path,
            "format": form,
            "at": at,
            "since": query.get("since", ""),
            "until": query.get("until", ""),
            "recursive": query.get("recursive", "0") in ("1", "true"),
            "identities": [list(each) for each in identities],
        }

    async def _relayed(self, request: web.Request, job: dict[str, Any]) -> web.StreamResponse:
        try:
            child = await start(_MODULE, job)
        except OSError as error:
            return error_answer(503, str(error))
        try:
            return await self._answered(request, child, _FORMATS[job["format"]])
        finally:
            await end(child)

    async def _answered(self, request: web.Request, child: Child, form: str) -> web.StreamResponse:
        assert child.stdout is not None
        try:
            header: dict[str, Any] = json.loads(await child.stdout.readline())
        except ValueError:
            return error_answer(503, f"the process that makes the table has ended with {await child.wait()}")
        if "error" in header:
            return error_answer(header["status"], header["error"])
        response = web.StreamResponse(headers={**guard.HEADERS, "Cache-Control": "no-store"})
        response.content_type = form
        if header["zxid"]:
            response.headers["X-Zketcd-Zxid"] = f"0x{header['zxid']:x}"
        await response.prepare(request)
        with suppress(ConnectionError):
            while part := await child.stdout.read(_CHUNK):
                await response.write(part)
                await asyncio.sleep(0)  # `write` waits only for a client that reads slowly
            if await child.wait():
                # Without the last chunk the client sees that the answer is not complete.
                response.force_close()
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write_eof()
        return response


def identities_of(call: Call) -> Identities:
    """Those of a login, and of its address."""
    return (*call.login.identities, Identity("ip", call.address))


def login_headers(status: int) -> dict[str, str]:
    """The headers of a refusal."""
    return {"WWW-Authenticate": 'Basic realm="zketcd"'} if status == HTTPStatus.UNAUTHORIZED else {}


def basic(header: str) -> tuple[str, str] | None:
    """Name and password of HTTP's Basic authentication; None for another header."""
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return None
    return (name, password) if colon else None


def error_answer(
    status: int, text: str, headers: Mapping[str, str] | None = None, **more: object
) -> web.Response:
    """A refusal, as the admin port has it."""
    body = json.dumps({"command": None, "error": text, **more})
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)
