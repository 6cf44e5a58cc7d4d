"""Which paths, sessions and clients are busiest: one request in many is looked at when it is received. Pure.

Each connection knows how many of its requests pass before the next one is looked at. The numbers are drawn so
that each request has the same chance, whatever its client sends in turn. A request that nobody looks at costs
its connection a subtraction for each chunk of requests.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from codec.constants import OpCode
from codec.errors import MalformedPacket
from codec.longs import hex64
from codec.operation_names import operation_name
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.replies import Wire
from proxy.options.top import TopOptions
from proxy.state.effect import path_of
from proxy.state.ops import EXTENDED, MULTI_READ
from proxy.support.busiest import Busiest, Fading, Rates
from proxy.support.controls import shortened
from schema.paths import prefix_of

_Key = TypeVar("_Key", bound=Hashable)

#: Requests that pass before the next one is looked at, if none is.
NEVER = 1 << 62
#: Rows of each list that the operators get at most.
MOST = 200

_KEPT = 256  # keys of a table, at least
_LONGEST = 256  # characters of a path
_LARGEST = 64 << 10  # bytes of a multi whose parts are counted
_MOST_KEPT = 64  # requests that are counted together, which takes less than half of the time
_LARGEST_KEPT = 4096  # bytes of such a request
_BITS = 53
_UPDATES = EXTENDED.updates  # of all opcodes that are counted
_DECODE_MULTI = EXTENDED.writes[OpCode.MULTI].decode
_MULTIS = frozenset((OpCode.MULTI, OpCode.MULTI_READ))


class _Seen(NamedTuple):
    """An operation of a sampled request."""

    opcode: int
    path: str  # its prefix; "" if it has none


class _Sampled(NamedTuple):
    """A request that is counted later."""

    session_id: int
    address: str
    wire: Wire
    packet: bytes
    seconds: float


class Sampling:
    """What was seen of the requests of one proxy's clients."""

    def __init__(
        self, options: TopOptions, randbits: Callable[[int], int], seconds: Callable[[], float]
    ) -> None:
        """`randbits`: a random number of so many bits. `seconds`: a monotonic clock."""
        self.options = options
        self._randbits = randbits
        self._seconds = seconds
        one_in = options.sample
        self._logarithm = math.log1p(-1 / one_in) if one_in > 1 else 0.0
        self._fading = fading = Fading(options.window, seconds())
        self._all = fading.table(1)
        self._paths = fading.table(_KEPT)
        self._operations = fading.table(_KEPT)
        self._sessions = fading.table(_KEPT)
        self._sessions_paths = fading.table(_KEPT)
        self._clients = fading.table(_KEPT)
        self._kept: list[_Sampled] = []

    # -- counting ------------------------------------------------------------------------------------------

    def skip(self) -> int:
        """How many requests of a connection pass before the next one is looked at."""
        one_in = self.options.sample
        if one_in < 2:
            return 0 if one_in else NEVER
        chance = (self._randbits(_BITS) + 1) / (1 << _BITS)
        return int(math.log(chance) / self._logarithm)

    def look(self, client: ClientInfo, wire: Wire, frames: Sequence[bytes], place: int) -> int:
        """Look at the frame at `place` of a chunk, and at later ones by chance; the place of the next one.

        That place is counted from the end of the chunk.
        """
        while place < len(frames):
            packet = frames[place]
            self._kept.append(_Sampled(client.session_id, client.address, wire, packet, self._seconds()))
            if len(packet) > _LARGEST_KEPT or len(self._kept) >= _MOST_KEPT:
                self._count_kept()
            place += 1 + self.skip()
        return place - len(frames)

    def _count_kept(self) -> None:
        kept, self._kept = self._kept, []
        for sampled in kept:
            self._count(sampled)

    def _count(self, sampled: _Sampled) -> None:
        session_id, client, wire, packet, seconds = sampled
        if len(packet) < wire.body:
            return
        _, opcode = wire.header(packet)
        if opcode not in _UPDATES:  # a ping, for instance
            return
        seen: Collection[_Seen]
        try:
            if opcode in _MULTIS and len(packet) <= _LARGEST:
                seen = set(self._parts(opcode, packet, wire.body))
            else:
                seen = (_Seen(opcode, self._prefix(EXTENDED.path_in(opcode, packet, wire.body))),)
        except MalformedPacket:
            seen = (_Seen(opcode, ""),)
        weight, session = self._fading.weight(seconds), hex64(session_id)
        is_write = _UPDATES[opcode]
        self._all.add("", is_write, weight)
        self._sessions.add((session, client), is_write, weight)
        self._clients.add(client, is_write, weight)
        for each in seen:
            self._operations.add(each, is_write, weight)
        for path in {each.path for each in seen}:
            self._paths.add(path, is_write, weight)
            self._sessions_paths.add((session, client, path), is_write, weight)

    def _parts(self, opcode: int, packet: bytes, position: int) -> Iterator[_Seen]:
        """The operations of a multi, with all parts that a server may accept. Raises MalformedPacket."""
        if opcode == OpCode.MULTI:
            for kind, fields in _DECODE_MULTI(packet, position)[0]:
                yield _Seen(kind.opcode, self._prefix(path_of(fields)))
        else:
            for part, path in MULTI_READ.paths(packet, position):
                yield _Seen(part, self._prefix(path))

    def _prefix(self, path: str | None) -> str:
        """The first names of a path, in a form that can be printed: clients may send any characters."""
        if path is None:
            return ""
        prefix = prefix_of(path[: 4 * _LONGEST], self.options.depth)
        if not prefix.isprintable():
            prefix = ascii(prefix)[1:-1]
        return shortened(prefix, _LONGEST)

    # -- what was counted ----------------------------------------------------------------------------------

    def total(self) -> Rates:
        """Requests a second."""
        found = self._top(self._all, 1)
        return found[0][1] if found else Rates(0.0, 0.0)

    def paths(self, most: int = MOST) -> list[tuple[str, Rates]]:
        """Requests a second by path prefix; a multi counts once for each."""
        return self._top(self._paths, most)

    def operations(self, most: int = MOST) -> list[tuple[str, str, Rates]]:
        """Requests a second by operation and path prefix, parts of multis by their own."""
        found: list[tuple[_Seen, Rates]] = self._top(self._operations, most)
        return [(operation_name(seen.opcode), seen.path, rates) for seen, rates in found]

    def sessions(self, most: int = MOST) -> list[tuple[str, str, str, Rates]]:
        """Requests a second by session, with the client's address and the prefix that it uses most."""
        uses: dict[tuple[str, str], str] = {}
        for (session, client, path), _ in self._top(self._sessions_paths, 2 * _KEPT):
            uses.setdefault((session, client), path)
        return [(*key, uses.get(key, ""), rates) for key, rates in self._top(self._sessions, most)]

    def clients(self, most: int = MOST) -> list[tuple[str, Rates]]:
        """Requests a second by the client's address."""
        return self._top(self._clients, most)

    def _top(self, table: Busiest[Any], most: int) -> list[tuple[Any, Rates]]:
        self._count_kept()
        return table.top(most, self._fading.per_second(self._seconds()) * self.options.sample)
