"""The admin HTTP server: ZooKeeper's /commands, Keeper's, /ready and /live for orchestrators, /metrics.

Runs in the proxy's event loop, on its own port. `commands` and `prometheus` decide what is answered; this
file has only routes and statuses. Long answers are made and sent in slices. The console is an application
of its own.
"""

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from aiohttp import web, web_response

from proxy.admin.changes import Changes
from proxy.admin.commands import Commands, Response
from proxy.admin.connections import IDLE_TIMEOUT, AdminConnections, waits
from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.admin.json_text import encode, encode_lines
from proxy.admin.long_answers import LongAnswers
from proxy.admin.prometheus import CONTENT_TYPE, Exposition
from proxy.log.slices import SLICE
from proxy.options.words import KNOWN, LONG
from proxy.state.auth.ip import java_address
from proxy.state.pause import NO_PAUSE, Pause
from proxy.support import descriptors
from proxy.support.addresses import host_of, is_loopback, is_public_name
from proxy.support.last_resort import contained
from proxy.support.ports import BoundedPort, Bounds

# An orchestrator stops a proxy that does not answer these in time. They take next to none.
_PROBES = ("/live", "/ready")
_BETWEEN_SCRAPES = 0.05  # seconds
_CLOSE_TIMEOUT = 1.0  # seconds for handshakes, first requests and answers under way when the server stops
_JSON = "application/json"
_AT_ONCE = 8  # parts of an answer that are sent in one go

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminServer:
    """One HTTP server about one proxy."""

    def __init__(
        self,
        facts: Facts,
        commands: Commands,
        changes: Changes,
        words: FourLetterWords,
        console: web.Application | None = None,
        tables: Sequence[web.RouteDef] = (),
        storage: Sequence[web.RouteDef] = (),
    ) -> None:
        """`console` answers what is below /console; None for no console. `tables`, `storage`: more routes."""
        self._facts = facts
        self._commands = commands
        self._changes = changes
        self._words = words
        self._exposition = Exposition(facts)
        self._connections = AdminConnections()
        self._long = LongAnswers(facts.subject.clock)
        self._port: BoundedPort | None = None
        self._begins = asyncio.Lock()
        self._scrape: asyncio.Future[bytes] | None = None  # which has not begun
        self._next_scrape = 0.0  # by the loop's clock
        application = web.Application(middlewares=[self._connections.watched, self._apart, self._guarded])
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/commands", self._links),
                web.get("/commands/", self._links),
                web.post("/commands", self._links),
                web.post("/commands/", self._links),
                web.route("*", "/commands/{name:.+}", self._command),
                *(
                    method(f"/api/v1/commands{word}", self._word)
                    for method in (web.get, web.post)
                    for word in ("", "/", "/{word}")
                ),
                *storage,
                web.get("/live", self._live),
                web.get("/ready", self._ready),
                web.get("/metrics", self._metrics),
            ]
        )
        self._pages = ["commands", "live", "metrics", "ready"]
        application.add_routes(tables)
        self._pages += [route.path.lstrip("/") for route in tables]
        if console is not None:
            application.add_subapp("/console", console)
            self._pages.insert(1, "console")
        self._runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=IDLE_TIMEOUT,
            shutdown_timeout=_CLOSE_TIMEOUT,
            logger=_QUIET,
            read_bufsize=4 << 10,  # of a body; one of a byte in each chunk takes 50 times as much memory
            auto_decompress=False,  # 400 KB of gzip are 400 MiB, which take a second
        )

    async def start(
        self, listener: socket.socket, tls: ssl.SSLContext | None = None, most: int = descriptors.ADMIN
    ) -> None:
        """Answer on a socket that is bound. `most`: connections, of which one address may have the half."""
        await self._runner.setup()
        assert self._runner.server is not None
        connections = self._connections
        bounds = Bounds(most, most // 2)
        self._port = BoundedPort(listener, bounds, "the admin port", tls, connections.make_room)
        self._port.open(connections.maker(self._runner.server))

    async def stop(self) -> None:
        """Answer the requests that are here, and the first ones of connections that are, then close."""
        if self._port is not None:
            await self._port.close(_CLOSE_TIMEOUT)
            await self._connections.until_asked(_CLOSE_TIMEOUT)
        await self._runner.cleanup()

    @web.middleware
    async def _apart(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """A middleware: requests that come together begin one after another, so that they do not add up."""
        if request.path not in _PROBES:
            with waits(request):
                others = self._begins.locked()
                async with self._begins:
                    await asyncio.sleep(SLICE if others else 0)
        return await handler(request)

    async def _index(self, _: web.Request) -> web.Response:
        return _html(self._pages, "")

    async def _links(self, request: web.Request) -> web.Response:
        """JettyAdminServer's answer where no command is named."""
        _check_host(request)
        names = sorted(self._commands.primary_names + self._changes.primary_names)
        return _html(names, "commands/")

    async def _command(self, request: web.Request) -> web.StreamResponse:
        _check_host(request)
        arguments = {name: request.query.getall(name)[0] for name in request.query}
        method = "GET" if request.method == "HEAD" else request.method
        name, authorization = request.match_info["name"], request.headers.get("Authorization")
        address = java_address(request.remote or "")
        try:
            async with asyncio.timeout(IDLE_TIMEOUT):
                content = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(reason="the request's body did not come in time") from None
        response = await self._changes.run(method, name, content, authorization, address)
        if response is not None:
            return _json(response)
        run = partial(self._commands.run, method, name, arguments, authorization, address)
        if not self._commands.is_long(name):
            return _json(run(NO_PAUSE))
        async with self._long.place(request):
            status, body = await self._long.make(run, request)
            return await _sent(request, status, await self._long.make(partial(encode, body), request))

    async def _word(self, request: web.Request) -> web.StreamResponse:
        """A four-letter word as ClickHouse Keeper answers it (KeeperHTTPCommandsHandler).

        Older releases have it in the path, newer ones in the parameter `command`, where it may also be a
        command of clickhouse-keeper-client.
        """
        _check_host(request)
        word = request.query.get("command", "") or request.match_info.get("word", "")
        if word not in KNOWN:
            if "command" in request.query:
                why = "clickhouse-keeper-client is not supported: use zketcd shell or /api/v1/storage"
                return _keepers(HTTPStatus.NOT_IMPLEMENTED, {"message": why})
            return _keepers(HTTPStatus.BAD_REQUEST, {"message": "Invalid four letter command."})
        if not self._words.allows(word):
            why = "Command is disabled. Check server settings: --four-letter-words."
            return _keepers(HTTPStatus.FORBIDDEN, {"message": why})

        def made(pause: Pause) -> list[bytes]:
            return encode_lines("result", self._words.answer(word.encode(), b"", pause) or (), pause)

        if word not in LONG:
            return _whole(HTTPStatus.OK, made(NO_PAUSE))
        async with self._long.place(request):
            return await _sent(request, HTTPStatus.OK, await self._long.make(made, request))

    async def _live(self, _: web.Request) -> web.Response:
        """Whether requests get outcomes. An unreachable etcd is no reason to restart the proxy."""
        reason = self._facts.subject.process.deaf
        if reason:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return _json(Response(status, {"status": "fail", "details": {"reason": reason}}))
        return _json(Response(HTTPStatus.OK, {"status": "ok"}))

    async def _ready(self, _: web.Request) -> web.Response:
        """Whether clients should connect to this proxy, in the form of Keeper's /ready."""
        facts = self._facts
        subject = facts.subject
        serving = facts.takes_new_clients
        details = {"role": facts.state, "hasLeader": subject.contact.in_touch, "serving": serving}
        if copy := facts.copy():
            details |= {"follows": copy}
        reason = facts.why_not_ready
        if not reason:
            return _json(Response(HTTPStatus.OK, {"status": "ok", "details": details}))
        return _json(
            Response(
                HTTPStatus.SERVICE_UNAVAILABLE, {"status": "fail", "details": {**details, "reason": reason}}
            )
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        """Of all requests that wait, one makes the text."""
        scrape = self._scrape
        if scrape is None:
            loop = asyncio.get_running_loop()
            scrape = self._scrape = loop.create_future()
            try:
                await asyncio.sleep(self._next_scrape - loop.time())
                self._scrape = None  # requests from now on get the next text
                scrape.set_result(self._exposition.text())
            except Exception as error:  # noqa: BLE001 - each of those that wait has an error as its answer
                scrape.set_exception(error)
            finally:
                self._scrape = None
                self._next_scrape = loop.time() + _BETWEEN_SCRAPES
                scrape.cancel()  # if the server stops
        return web.Response(body=await scrape, headers={"Content-Type": CONTENT_TYPE})

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Give errors the form of all other answers. Our faults are logged; no client sees a traceback."""
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _json(Response(HTTPStatus(error.status), {"command": None, "error": error.reason}))
        except ConnectionError:  # the client went while it was read
            return _json(
                Response(HTTPStatus.BAD_REQUEST, {"command": None, "error": "the request is not complete"})
            )
        except Exception as error:  # noqa: BLE001 - `contained` logs it
            contained(
                error,
                f"{request.method} {request.path} could not be answered",
                self._connections.throttled_log,
            )
            return _json(
                Response(
                    HTTPStatus.INTERNAL_SERVER_ERROR, {"command": None, "error": "an error of the server"}
                )
            )


# aiohttp names its and Python's version in each answer, also in those to requests that it cannot read.
web_response.SERVER_SOFTWARE = "zketcd"  # type: ignore[attr-defined]

# aiohttp logs a traceback for every request that it cannot read; the client gets a 400.
_QUIET = logging.getLogger(f"{__name__}.aiohttp")
_QUIET.setLevel(logging.CRITICAL)


def _check_host(request: web.Request) -> None:
    """Raise HTTPForbidden for another site's page, and if its name points to our loopback interface.

    With such a name (DNS rebinding), a page in a browser on this machine could send commands. Browsers always
    send a Host. And some commands that reset something have the method GET, as ZooKeeper's: a page could send
    these as an image's address.
    """
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        raise web.HTTPForbidden(reason="commands are not answered to a page of another site")
    transport, host = request.transport, host_of(request.headers.get("Host", ""))
    own = "" if transport is None else transport.get_extra_info("sockname")[0]
    if is_loopback(own) and is_public_name(host) and host != socket.gethostname():
        raise web.HTTPForbidden(
            reason=f"on this address commands are answered to localhost, not to {host[:100]!r}"
        )


def _json(response: Response) -> web.Response:
    return _whole(response.status, encode(response.body, NO_PAUSE))


def _keepers(status: HTTPStatus, body: dict[str, str]) -> web.Response:
    """Keeper's JSON, which has no spaces."""
    return _whole(status, (json.dumps(body, separators=(",", ":")).encode(),))


def _whole(status: int, parts: Sequence[bytes]) -> web.Response:
    return web.Response(status=status, body=b"".join(parts), content_type=_JSON, charset="utf-8")


async def _sent(request: web.Request, status: int, parts: Sequence[bytes]) -> web.StreamResponse:
    """JSON that may be too long to be sent at a stretch. The client may go meanwhile."""
    if len(parts) <= _AT_ONCE:
        return _whole(status, parts)
    response = web.StreamResponse(status=status)
    response.content_type = _JSON
    response.charset = "utf-8"
    response.content_length = sum(map(len, parts))
    await response.prepare(request)
    with suppress(ConnectionError):
        for part in parts if request.method != "HEAD" else ():
            await response.write(part)
            await asyncio.sleep(0)  # `write` waits only for a client that reads slowly
        await response.write_eof()
    return response


def _html(names: list[str], folder: str) -> web.Response:
    lines = (f'<a href="/{folder}{name}">{name}</a>\n<br/>\n' for name in names)
    return web.Response(text="".join(lines), content_type="text/html")
