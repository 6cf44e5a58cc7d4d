"""A reader of the feed of changes: it copies the tree, and notices what is missing or comes twice."""

import base64
import json
from typing import Any

from proxy.state.feed import id_of


class Mirror:
    """The nodes as the changes have made them."""

    def __init__(self, path: str = "/") -> None:
        self.nodes: dict[str, tuple[int, bytes]] = {}  # version and data
        if path == "/":
            self.nodes["/"] = (0, b"")
        self.id = ""
        self.ids: list[str] = []  # of changes
        self.end = ""

    def take(self, line: bytes) -> None:
        """A whole line of JSON."""
        found: dict[str, Any] = json.loads(line)
        former, self.id = self.id, found["id"]
        self.end = found.get("end", "")
        if "path" not in found:
            assert not former or id_of(former) <= id_of(self.id), (former, found)
            return
        assert not former or id_of(former) < id_of(self.id), (former, found)
        self.ids.append(self.id)
        path, change = found["path"], found["change"]
        before, after = found["version_before"], found["version_after"]
        if change == "created":
            assert path not in self.nodes, found
            self.nodes[path] = (0, _data(found))
        elif change == "deleted":
            assert self.nodes.pop(path)[0] == before, found
        elif change == "set":
            assert self.nodes[path][0] == before, found
            self.nodes[path] = (after, _data(found))
        else:
            assert path in self.nodes, found


def _data(found: dict[str, Any]) -> bytes:
    if found["data_base64"] is not None:
        assert found["data"] is None
        return base64.b64decode(found["data_base64"], validate=True)
    return (found["data"] or "").encode()
