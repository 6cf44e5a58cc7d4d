"""getEphemerals: what the caller's session owns (FinalRequestProcessor, case getEphemerals)."""

from collections.abc import Collection

from codec.jute import pack_strings
from codec.packets import decode_optional_path
from proxy.state.operation import Client, Reading
from proxy.state.pieces import AT_ONCE, Laborious, Work
from proxy.state.tree import packing
from schema.paths import ROOT

# What Java's String.trim takes for white space.
_BLANK = "".join(map(chr, range(0x21)))
_FILTERED = 8192  # paths in one piece


def get_ephemerals(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths that begin with a prefix, which need not end with a whole name; all for null, blank and /."""
    prefix = _prefix(frame, position)
    owned: Collection[str] = reading.tree.ephemerals.get(client.session_id, ())
    if len(owned) > AT_ONCE:
        raise Laborious
    return pack_strings([path for path in owned if path.startswith(prefix)])


def listing_ephemerals(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As get_ephemerals, in pieces."""
    prefix = _prefix(frame, position)
    owned = list(reading.tree.ephemerals.get(client.session_id, ()))
    found: list[str] = []
    for start in range(0, len(owned), _FILTERED):
        found += [path for path in owned[start : start + _FILTERED] if path.startswith(prefix)]
        yield
    return (yield from packing(found))


def _prefix(frame: bytes, position: int) -> str:
    prefix = decode_optional_path(frame, position)
    return "" if prefix is None or prefix.strip(_BLANK) in ("", ROOT) else prefix
