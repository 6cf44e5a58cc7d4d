"""getEphemerals: what the caller's session owns (FinalRequestProcessor, case getEphemerals)."""

from collections.abc import Collection

from codec.jute import pack_strings
from codec.packets import decode_optional_path
from proxy.state.operation import Client, Reading
from schema.paths import ROOT

# What Java's String.trim takes for white space.
_BLANK = "".join(map(chr, range(0x21)))


def get_ephemerals(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths that begin with a prefix, which need not end with a whole name; all for null, blank and /."""
    prefix = decode_optional_path(frame, position)
    owned: Collection[str] = reading.tree.ephemerals.get(client.session_id, ())
    if prefix is not None and prefix.strip(_BLANK) not in ("", ROOT):
        owned = [path for path in owned if path.startswith(prefix)]
    return pack_strings(owned)
