"""How many steps a read will take, about, as the state is now: a write after it is only sent if few.

If the write were in the log, and the read took long, the log could not be applied until the read is answered.
What cannot be known without the work itself counts as `MANY`.
"""

from collections.abc import Collection, Iterator
from typing import Any

from codec.jute import Reader
from codec.packets import decode_path
from proxy.state.node import Node
from proxy.state.operation import Client, CountSteps, Reading, ReadPart
from proxy.state.pause import BYTES_PER_STEP, Pause, TooLong
from proxy.state.rights import Rights
from schema.paths import ROOT

MANY = 1 << 20
# A watch, or a part of a multiRead, has at least so many bytes.
_BYTES_PER_ITEM = 32
_CHARACTERS_PER_STEP = 64  # of ids that are encoded


def of_bytes(_reading: Reading, _client: Client, frame: bytes, _position: int) -> int:
    """A request with many paths."""
    return len(frame) // _BYTES_PER_ITEM


def of_part(part: ReadPart) -> CountSteps:
    """As many as the read takes as a part of a multiRead."""

    def count(reading: Reading, _client: Client, frame: bytes, position: int) -> int:
        fields = part.decode(Reader(frame, position))
        try:
            return part.expect(reading, fields, 0)
        except TooLong as error:
            return error.steps

    return count


def of_acl(reading: Reading, _client: Client, frame: bytes, position: int) -> int:
    """An ACL."""
    node = _node(reading, frame, position)
    return 0 if node is None else of_entries(node.rights)


def of_entries(rights: Rights) -> int:
    """The entries of an ACL, of which few may have very long ids."""
    return len(rights.acl) + rights.size // _CHARACTERS_PER_STEP


class OfEntries:
    """Goes over the entries of an ACL: a long id counts as more steps of the pause."""

    __slots__ = ("_pause",)

    def __init__(self, pause: Pause) -> None:
        self._pause = pause

    def each(self, items: Collection[Any]) -> Iterator[Any]:
        """The entries."""
        for entry in self._pause.each(items):
            yield entry
            self._pause.spend(len(entry.id) // _CHARACTERS_PER_STEP)


def of_owned(reading: Reading, client: Client, _frame: bytes, _position: int) -> int:
    """The ephemeral nodes of the client."""
    owned: Collection[str] = reading.tree.ephemerals.get(client.session_id, ())
    steps = len(owned)
    return steps if steps > reading.pause.lengths.at_once else steps + sum(map(len, owned)) // BYTES_PER_STEP


def of_subtree(reading: Reading, _client: Client, frame: bytes, position: int) -> int:
    """All nodes below one."""
    node = _node(reading, frame, position)
    return MANY if node is not None and node.children else 0


def _node(reading: Reading, frame: bytes, position: int) -> Node | None:
    return reading.tree.nodes.get(decode_path(frame, position) or ROOT)
