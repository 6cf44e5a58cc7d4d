"""`/api/v1/storage` on the admin port: znodes by the addresses of ClickHouse Keeper's HTTP API.

The method says what is done to the path, as in Keeper's documentation of its HTTP API. Who may ask is as in
the console, and changes are made as its changes.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from codec.packets import STAT, STAT_NAMES
from console.http import Console, outcome
from console.people import guard
from console.people.logins import Call, Refused
from console.sessions.local_session import NoAnswer, NoSession
from console.tables import login_headers
from console.walks.listing import ordered
from console.walks.pacing import paced
from proxy.state import bounded
from proxy.state.node import Node
from schema.paths import is_valid, split

_ADDRESS = "/api/v1/storage"
_HEADERS = {**guard.HEADERS, "Cache-Control": "no-store"}

_Handler = Callable[[Call, str], Awaitable[web.Response]]


class Storage:
    """The znodes of one proxy."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._api = console.api

    @property
    def routes(self) -> list[web.RouteDef]:
        """For the admin server."""
        return [web.route("*", f"{_ADDRESS}{path}", self._answer) for path in ("", "/{path:.*}")]

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            call = await self._console.call_from_outside(request)
            path, handler = _path(request), self._handler(request)
            if request.can_read_body:
                data = base64.b64encode(await self._console.body(request)).decode()
                call = call._replace(values={"data": data})
            response = await handler(call, path)
        except (Refused, NoSession, NoAnswer) as error:
            status, words = outcome(error)
            response = web.Response(status=status, text=f"{words}\n", headers=login_headers(status))
        response.headers.update(_HEADERS)
        return response

    def _handler(self, request: web.Request) -> _Handler:
        if request.method == "GET" and request.query.get("children") == "true":
            return self._list
        handlers = {
            "GET": self._get,
            "HEAD": self._exists,
            "POST": self._create,
            "PUT": self._set,
            "DELETE": self._remove,
        }
        if request.method not in handlers:
            raise web.HTTPMethodNotAllowed(request.method, handlers)
        return handlers[request.method]

    # -- reads -----------------------------------------------------------------------------------------------

    async def _exists(self, call: Call, path: str) -> web.Response:
        self._node(call, path)
        return web.Response()

    async def _get(self, call: Call, path: str) -> web.Response:
        data = self._node(call, path).data or b""
        return web.Response(body=data, content_type="application/octet-stream")

    async def _list(self, call: Call, path: str) -> web.Response:
        node, reading = self._node(call, path), self._api.reading
        async with reading.walks:
            names: list[str] = []
            size = 0
            async for child in paced(ordered(lambda: node.children or ()), reading.pace(call)):
                names.append(json.dumps(split(child)[1]))
                size += len(names[-1])
                if size > bounded.MOST:
                    words = f"the names of the children have more than {bounded.MOST >> 20} MiB"
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
        stat = json.dumps(_stat(node), separators=(",", ":"))
        return _text(f'{{"child_node_names":[{",".join(names)}],"stat":{stat}}}', "application/json")

    def _node(self, call: Call, path: str) -> Node:
        return self._api.reading.node(path, call.login.identities)

    # -- writes ----------------------------------------------------------------------------------------------

    async def _create(self, call: Call, path: str) -> web.Response:
        await self._api.changes.create(_with(call, path=path))
        return _text("Created\n", status=HTTPStatus.CREATED, headers={"Location": path})

    async def _set(self, call: Call, path: str) -> web.Response:
        await self._api.changes.set_data(_with(call, path=path, version=_version(call)))
        return _text("OK\n")

    async def _remove(self, call: Call, path: str) -> web.Response:
        await self._api.changes.delete(_with(call, path=path, version=_version(call)))
        return web.Response(status=HTTPStatus.NO_CONTENT)


def _path(request: web.Request) -> str:
    """Raises Refused."""
    try:
        names = [name for name in unquote(request.rel_url.raw_path, errors="strict").split("/") if name]
    except UnicodeDecodeError:
        raise Refused(HTTPStatus.BAD_REQUEST, "the path is not UTF-8") from None
    path = "/" + "/".join(names[_ADDRESS.count("/") :])
    if not is_valid(path):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{path[:200]!r} is no path that a znode can have")
    return path


def _with(call: Call, **values: Any) -> Call:
    return call._replace(values={"data": "", **call.values, **values})


def _version(call: Call) -> int:
    """The version that the znode has to have; -1: any. Raises Refused."""
    try:
        return int(call.query["version"])
    except (KeyError, ValueError):
        raise Refused(HTTPStatus.BAD_REQUEST, "version=NUMBER is missing, or no number; -1: any") from None


def _stat(node: Node) -> dict[str, int]:
    return dict(zip(STAT_NAMES, STAT.unpack(node.stat()), strict=True))


def _text(text: str, kind: str = "text/plain", **more: Any) -> web.Response:
    return web.Response(text=text, content_type=kind, **more)
