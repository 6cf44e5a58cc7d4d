"""The console on the admin port: routes, logins, statuses, headers. `answers` decides what is answered."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from console.answers import arguments
from console.answers.api import Api
from console.answers.past import ArchivePlace
from console.assets import Asset
from console.people import guard
from console.people.logins import Body, Call, Login, Logins, Refused
from console.people.passwords import LONGEST, Secret, is_right
from console.people.throttle import Throttle
from console.sessions.local_session import NoAnswer, NoSession
from console.tables import basic
from proxy.state.auth.ip import java_address
from proxy.state.auth.scheme import Identities
from proxy.state.auth.x509 import subject_name
from proxy.support.addresses import source_of
from proxy.support.last_resort import contained
from proxy.support.tasks import Tasks
from proxy.support.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_API = "/api/v1"
# Bytes of a login: who is not logged in yet cannot make the server read much.
_MOST_OF_LOGIN = 16 << 10
_MOST = 64 << 10  # of another request that has no data of a znode
_WITH_DATA = ("create", "set", "import")
_TIMEOUT = 30.0  # seconds until the body of a request has to be there: aiohttp has no limit for it
_HASHES = 2  # passwords that are checked at a time: 16 MiB each
_COOKIE = "zketcd-console"
# Of a browser in which a user has logged in: guesses of the user's password elsewhere do not lock it out.
_KNOWN_COOKIE = "zketcd-console-known"
_KNOWN_FOR = 30 * 24 * 3600  # seconds
_VERSION = "X-Zketcd-Version"  # of the data that are sent

_Handler = Callable[[Call], Awaitable[Body]]


class ConsoleSettings(NamedTuple):
    """What the configuration says."""

    users: Mapping[str, Secret]
    certificates: bool  # of clients are logins
    write: bool
    assets: Mapping[str, Asset]
    most_bytes: int  # of a request's body
    archive: ArchivePlace | None = None

    @property
    def needs_login(self) -> bool:
        """Whether it answers only users that have logged in."""
        return bool(self.users) or self.certificates


class Console:
    """The console of one proxy, as an application below /console."""

    def __init__(self, api: Api, settings: ConsoleSettings) -> None:
        self.api = api
        self._settings = settings
        self._logins = Logins(api.login_ended)
        self._throttle = Throttle()
        self._throttled_log = ThrottledLog(log)
        self._hashes = asyncio.Semaphore(_HASHES)
        self.application = web.Application(middlewares=[self._guarded])
        self.application.cleanup_ctx.append(self._recording)
        self.application.add_routes(
            [
                web.get("", self._enter),
                web.get("/", self._page),
                web.get("/{name:[a-z]+[.][a-z]+}", self._asset),
                web.get(f"{_API}/session", self._session),
                web.post(f"{_API}/login", self._login),
                web.post(f"{_API}/logout", self._logout),
                web.get(f"{_API}/data", self._data),
                web.get(f"{_API}/export", self._export),
            ]
        )
        for name, handler in (
            ("node", api.trees.node),
            ("children", api.trees.children),
            ("search", api.trees.search),
            ("sessions", api.sessions),
            ("sessions/one", api.one_session),
            ("watches", api.watches),
            ("pending", api.pending),
            ("traffic", api.traffic),
            ("traffic/history", api.traffic_history),
            ("top", api.top),
            ("log", api.log),
            ("proxies", api.proxies),
            ("deletions", api.changes.deletions),
        ):
            self._add("GET", name, handler)
        if api.past is not None:
            for name, handler in (
                ("past/span", api.past.span),
                ("past/history", api.past.history),
                ("past/node", api.past.node),
                ("past/revert", api.past.revert),
            ):
                self._add("GET", name, handler)
        for name, handler in (
            ("identities", api.add_identity),
            ("identities/forget", api.forget_identities),
            ("look", api.trees.look),
            ("create", api.changes.create),
            ("set", api.changes.set_data),
            ("delete", api.changes.delete),
            ("sessions/end", api.changes.end_session),
            ("copy", api.changes.copy),
            ("import", api.changes.import_),
            ("deletions", api.changes.ask_deletion),
            ("deletions/confirm", api.changes.confirm_deletion),
            ("deletions/withdraw", api.changes.withdraw_deletion),
        ):
            self._add("POST", name, handler)

    def _add(self, method: str, name: str, handler: _Handler) -> None:
        has_data = self._settings.write and name in _WITH_DATA
        most = self._settings.most_bytes if has_data else _MOST

        async def answer(request: web.Request) -> web.Response:
            return _json(await handler(await self._call(request, most)))

        self.application.router.add_route(method, f"{_API}/{name}", answer)

    # -- all requests ----------------------------------------------------------------------------------------

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse what no browser of an operator sends; give all answers the same headers."""
        response = await self._answered(request, handler)
        response.headers.update(guard.HEADERS)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        return response

    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        name = request.path.removeprefix("/console")
        kind = guard.Kind.API if name.startswith("/api/") else guard.Kind.PAGE
        if name in (f"{_API}/data", f"{_API}/export"):
            kind = guard.Kind.DATA
        refused = guard.refusal(request.headers, kind, needs_login=self._settings.needs_login)
        if refused:
            return _error(HTTPStatus.FORBIDDEN, refused)
        try:
            return await handler(request)
        except (Refused, NoSession, NoAnswer) as error:
            return _error(*outcome(error))
        except web.HTTPException as error:
            return _error(error.status, error.reason)
        except ConnectionError:  # the client went while it was read, or before all was done for it
            return _error(HTTPStatus.BAD_REQUEST, "the request is not complete, or its connection is closed")
        except Exception as error:  # noqa: BLE001 - `contained` logs it
            contained(error, f"{request.method} {request.path} could not be answered", self._throttled_log)
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the server: see its log")

    async def _call(self, request: web.Request, most: int = _MOST) -> Call:
        """A request of the console's page, by its cookie. Raises Refused."""
        login = self._find(request)
        if login is None:
            # Without the page and its cookie, say curl.
            login = Login("", self._unasked(request), time.monotonic())
            login.identities = self._own(login.user)
        return Call(
            login,
            dict(request.query),
            await self._document(request, most),
            java_address(request.remote or ""),
            partial(_is_gone, request),
        )

    async def _document(self, request: web.Request, most: int) -> Mapping[str, object]:
        """The JSON of a POST, of so many bytes at most. Raises Refused."""
        if request.method != "POST":
            return {}
        if request.content_type != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json")
        return arguments.document(await self.body(request, most))

    async def body(self, request: web.Request, most: int | None = None) -> bytes:
        """The body of a request, of so many bytes at most; by default as of one with data. Raises Refused."""
        body = bytearray()
        largest = self._settings.most_bytes
        limit = largest if most is None else most
        reason = " (--max-frame)" if limit == largest else ""
        try:
            async with asyncio.timeout(_TIMEOUT):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > limit:
                        raise Refused(
                            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                            f"the request has more than {limit} bytes{reason}",
                        )
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request's body did not come in time") from None
        return bytes(body)

    # -- logins ----------------------------------------------------------------------------------------------

    def _find(self, request: web.Request) -> Login | None:
        return self._logins.find(request.cookies.get(_cookie(request)), time.monotonic())

    async def _session(self, request: web.Request) -> web.Response:
        login = self._find(request)
        if login is not None:
            return _json(self.api.session(login))
        try:
            return self._begun(request, self._unasked(request))
        except Refused:
            return _json(self.api.session(None))

    def _unasked(self, request: web.Request) -> str:
        """The user who needs no password: of a certificate, or "" where none is needed. Raises Refused."""
        if not self._settings.needs_login:
            return ""
        subject = _subject(request) if self._settings.certificates else None
        if subject is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in first")
        return subject

    def _own(self, user: str) -> Identities:
        """The identities of a user from the start: those of a certificate."""
        return self.api.identities_of(user) if user and user not in self._settings.users else ()

    async def call_from_outside(self, request: web.Request) -> Call:
        """A request from outside the console: by a login, or HTTP's Basic. Raises Refused."""
        refused = guard.refusal(request.headers, guard.Kind.DATA, needs_login=self._settings.needs_login)
        if refused:
            raise Refused(HTTPStatus.FORBIDDEN, refused)
        login = self._find(request)
        if login is None:
            given = basic(request.headers.get("Authorization", ""))
            if given is not None and self._settings.users:
                await self._prove(request, *given)
                login = Login("", given[0], time.monotonic())
            else:
                login = Login("", self._unasked(request), time.monotonic())
                login.identities = self._own(login.user)
        return Call(
            login, dict(request.query), {}, java_address(request.remote or ""), partial(_is_gone, request)
        )

    async def _login(self, request: web.Request) -> web.Response:
        values = await self._document(request, _MOST_OF_LOGIN)
        user = arguments.word(values, "user")
        await self._prove(request, user, arguments.word(values, "password"))
        former = self._find(request)
        if former is not None:
            self._logins.end(former)
        response = self._begun(request, user)
        browser = request.cookies.get(_cookie(request, _KNOWN_COOKIE), "")
        if not self._throttle.knows(browser, user):
            browser = secrets.token_urlsafe()
            self._throttle.succeeded(browser, user)
        self._set_cookie(request, response, _KNOWN_COOKIE, browser, _KNOWN_FOR)
        return response

    async def _prove(self, request: web.Request, user: str, password: str) -> None:
        """Check a password. Raises Refused."""
        if not self._settings.users:
            raise Refused(HTTPStatus.BAD_REQUEST, "this console has no users with passwords")
        address = java_address(request.remote or "")
        source = request.cookies.get(_cookie(request, _KNOWN_COOKIE), "")
        if not self._throttle.knows(source, user):
            source = source_of(address)
        secret = self._settings.users.get(user)
        async with self._hashes:  # before it is asked whether there were too many: what waits was not tried
            now = time.monotonic()
            wait = self._throttle.wait(source, user, now)
            if wait:
                raise Refused(
                    HTTPStatus.TOO_MANY_REQUESTS, f"too many wrong passwords: try again in {wait:.0f} s"
                )
            self._throttle.tried(source, user, now)
            right = len(password) <= LONGEST and await asyncio.to_thread(is_right, password, secret)
        if not right:
            log.warning("console: login of %r from %s refused", user[:64], address)
            raise Refused(HTTPStatus.UNAUTHORIZED, "the name or the password is wrong")
        self._throttle.succeeded(source, user)
        log.info("console: %s logged in from %s", user, address)

    def _begun(self, request: web.Request, user: str) -> web.Response:
        source = source_of(java_address(request.remote or ""))
        login = self._logins.begin(user, time.monotonic(), source)
        login.identities = self._own(user)
        response = _json(self.api.session(login))
        self._set_cookie(request, response, _COOKIE, login.token)
        return response

    @staticmethod
    def _set_cookie(
        request: web.Request, response: web.Response, name: str, value: str, seconds: int | None = None
    ) -> None:
        response.set_cookie(
            _cookie(request, name),
            value,
            path="/console",
            max_age=seconds,
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )

    async def _logout(self, request: web.Request) -> web.Response:
        login = self._find(request)
        if login is not None:
            self._logins.end(login)
        response = _json({})
        response.del_cookie(_cookie(request), path="/console")
        return response

    # -- files -----------------------------------------------------------------------------------------------

    async def _enter(self, _request: web.Request) -> web.Response:
        return web.Response(status=HTTPStatus.FOUND, headers={"Location": "console/"})

    async def _page(self, request: web.Request) -> web.Response:
        return self._file(request, "index.html")

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["name"])

    def _file(self, request: web.Request, name: str) -> web.Response:
        asset = self._settings.assets.get(name)
        if asset is None:
            return _error(HTTPStatus.NOT_FOUND, "there is no such file")
        headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == asset.tag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=asset.content, content_type=asset.type, charset="utf-8", headers=headers)

    async def _data(self, request: web.Request) -> web.Response:
        """A znode's data as a file: never shown by the browser, whatever they are."""
        data, version = self.api.trees.data(await self._call(request))
        return web.Response(
            body=data,
            content_type="application/octet-stream",
            headers={"Content-Disposition": 'attachment; filename="znode.bin"', _VERSION: str(version)},
        )

    async def _export(self, request: web.Request) -> web.StreamResponse:
        """A subtree as a file."""
        parts = await self.api.trees.export(await self._call(request))
        # Those of the guard as well: it adds them when the answer has been sent.
        response = web.StreamResponse(headers={**guard.HEADERS, "Cache-Control": "no-store"})
        response.content_type = "application/x-ndjson"
        response.headers["Content-Disposition"] = 'attachment; filename="znodes.jsonl"'
        await response.prepare(request)
        async for part in parts:
            await response.write(part)
        await response.write_eof()
        return response

    async def _recording(self, _application: web.Application) -> AsyncIterator[None]:
        """Note the traffic while the console is there; then end the child that reads the archive."""
        tasks = Tasks()
        tasks.start(self.api.recorder.run(), "note the traffic for the console")
        yield
        await tasks.close()
        if self.api.past is not None:
            await self.api.past.close()


def outcome(error: Refused | NoSession | NoAnswer) -> tuple[int, str]:
    """The status and the words of a request that failed."""
    if isinstance(error, Refused):
        return error.status, str(error)
    if isinstance(error, NoSession):
        return HTTPStatus.SERVICE_UNAVAILABLE, f"{error}: nothing was changed"
    return HTTPStatus.GATEWAY_TIMEOUT, f"{error}: whether the change was made is not known, look again"


def _subject(request: web.Request) -> str | None:
    """The subject of the certificate that the browser has shown; None without one, or if it is empty."""
    tls = None if request.transport is None else request.transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    try:
        # A certificate without a subject names no user: its user would be "", as where no login is needed.
        return None if certificate is None else subject_name(certificate) or None
    except ValueError as error:
        log.warning("console: the certificate from %s: %s", request.remote, error)
        return None


def _is_gone(request: web.Request) -> bool:
    """Whether the connection of a request is closed."""
    return request.transport is None or request.transport.is_closing()


def _cookie(request: web.Request, name: str = _COOKIE) -> str:
    """A name of its own for each port: browsers send a host's cookies to all of its ports."""
    port = request.host.rpartition(":")[2]
    return f"{name}-{port if port.isdigit() else 0}"


def _json(body: Body) -> web.Response:
    return web.Response(text=json.dumps(body, separators=(",", ":")), content_type="application/json")


def _error(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=json.dumps({"error": text}), content_type="application/json")
