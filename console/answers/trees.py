"""What the console's addresses answer about the tree."""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

from console.answers import arguments, znodes
from console.answers.reading import Reading
from console.answers.subtrees import Gathered, lines
from console.people.logins import Body, Call, Refused
from console.walks.directories import Directories, Window
from console.walks.listing import MOST_CHARACTERS, walk
from console.walks.pacing import paced
from proxy.state.auth.scheme import Identities
from schema.paths import join

_MOST_VISITED = 50_000  # znodes that one search looks at; the next request continues there
_MOST_WINDOWS = 100  # of one look
_MOST_ROWS = 5000  # of all its windows
_MOST_NAMES = 4 * MOST_CHARACTERS  # characters of the names in all its windows
_FEWEST = 64 << 10  # bytes of a file that are sent at a time


class Trees:
    """Answers about the tree of one proxy."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._subject = reading.subject
        self._directories = Directories()

    async def node(self, call: Call) -> Body:
        """One znode."""
        return self._details(arguments.path(call.query), call.login.identities)

    def _details(self, path: str, identities: Identities) -> Body:
        return znodes.details(path, self._reading.node(path, identities), identities)

    def data(self, call: Call) -> tuple[bytes, int]:
        """All data of a znode, and their version."""
        node = self._reading.node(arguments.path(call.query), call.login.identities)
        return node.data or b"", node.version

    async def children(self, call: Call) -> Body:
        """A window of a znode's children."""
        return await self._page(arguments.window(call.query), call)

    async def _page(self, window: Window, call: Call) -> Body:
        identities = call.login.identities
        node = self._reading.node(window.path, identities)
        nodes = self._subject.machine.tree.nodes
        pace = self._reading.pace(call)
        found = await self._directories.names(node, window, pace)
        rows = []
        for name in found.names:
            child = nodes.get(join(window.path, name))
            if child is not None:
                rows.append(znodes.row(name, child, identities))  # looks through its ACL, which may be long
                await pace.rest()
        is_last = found.before + len(found.names) >= found.matching
        return {
            "path": window.path,
            "total": len(node.children or ()),
            "matching": found.matching,
            "before": found.before,
            "children": rows,
            "next": None if is_last or not found.names else found.names[-1],
        }

    async def look(self, call: Call) -> Body:
        """Windows and a znode, each only if it differs from what the page has: that is what `mark` says."""
        windows = call.values.get("windows", [])
        if not isinstance(windows, list) or len(windows) > _MOST_WINDOWS:
            raise Refused(400, f"windows is a list of {_MOST_WINDOWS} at most")
        identities = call.login.identities
        left, characters = _MOST_ROWS, _MOST_NAMES
        found = []
        for each in windows:
            wanted = _object(each)
            window = arguments.window(wanted)
            window = window._replace(limit=min(window.limit, left) if characters > 0 else 0)
            left -= window.limit
            try:
                page = await self._page(window, call)
                characters -= sum(len(row["name"]) for row in page["children"])
                found.append(_unless_same(page, wanted))
            except Refused as error:
                found.append({"status": error.status, "error": str(error)})
        shown = None
        if call.values.get("node") is not None:
            wanted = _object(call.values["node"])
            try:
                shown = _unless_same(self._details(arguments.path(wanted), identities), wanted)
            except Refused as error:
                shown = {"status": error.status, "error": str(error)}
        return {"windows": found, "node": shown, "nowMs": int(self._subject.clock.time() * 1000)}

    async def search(self, call: Call) -> Body:
        """Paths below `path` that contain `text`; `next` is the next page's cursor, None at the end."""
        text = call.query.get("text", "")
        if not text or len(text) > 1000:
            raise Refused(400, "text is what the paths contain: 1 to 1000 characters")
        top = arguments.path(call.query)
        after = call.query.get("after")
        limit = arguments.limit(call.query)
        found: list[str] = []
        cursor = None
        visited = size = 0
        async with self._reading.walks:
            paths = walk(self._subject.machine.tree.nodes, call.login.identities, top, after)
            async for path in paced(paths, self._reading.pace(call)):
                visited += 1
                if text in path:
                    found.append(path)
                    size += len(path)
                if len(found) >= limit or visited >= _MOST_VISITED or size >= MOST_CHARACTERS:
                    cursor = path
                    break
        return {"paths": found, "visited": visited, "next": cursor}

    async def export(self, call: Call) -> AsyncIterator[bytes]:
        """The file of a subtree, in parts. Raises Refused before the first of them."""
        path = arguments.path(call.query)
        gathered = Gathered(path, call.login.identities)
        before = self._subject.machine.zxid
        await self._reading.subtree(path, call.login.identities, self._reading.pace(call), gathered.visit)
        return self._parts(call, path, gathered, (before, self._subject.machine.zxid))

    async def _parts(
        self, call: Call, path: str, gathered: Gathered, zxids: tuple[int, int]
    ) -> AsyncIterator[bytes]:
        part = bytearray()
        async for line in paced(lines(path, gathered, zxids), self._reading.pace(call)):
            part += line
            if len(part) >= _FEWEST:
                yield bytes(part)
                part.clear()
        yield bytes(part)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(400, "a window or a node is a JSON object")
    return value


def _unless_same(body: Body, wanted: dict[str, Any]) -> Body:
    """The answer with its mark, or only that it is the one that the page has."""
    mark = hashlib.sha256(json.dumps(body).encode()).hexdigest()[:24]
    return {"same": True} if wanted.get("mark") == mark else body | {"mark": mark}
