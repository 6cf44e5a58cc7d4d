"""getEphemerals: the nodes that the caller's session owns (FinalRequestProcessor, case getEphemerals)."""

from collections.abc import Collection

from codec.packets import decode_optional_path
from proxy.state.node import pack_names
from proxy.state.operation import Client, Reading
from proxy.state.ops.steps import of_owned
from schema.paths import ROOT

# The characters that Java's String.trim removes.
_BLANK = "".join(map(chr, range(0x21)))
_FILTERED_PER_STEP = 16  # paths


def get_ephemerals(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths that begin with a prefix, which may end within a name; all for null, blank and /.

    Raises BADARGUMENTS for paths that are too many for one reply.
    """
    prefix = _prefix(frame, position)
    owned: Collection[str] = reading.tree.ephemerals.get(client.session_id, ())
    reading.pause.expect(of_owned(reading, client, frame, position))
    found: list[str] = []
    for some in reading.pause.texts(owned, _FILTERED_PER_STEP):
        found += [path for path in some if path.startswith(prefix)]
    return pack_names(found, reading.pause)


def _prefix(frame: bytes, position: int) -> str:
    prefix = decode_optional_path(frame, position)
    return "" if prefix is None or prefix.strip(_BLANK) in ("", ROOT) else prefix
