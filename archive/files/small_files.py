"""The small files of a run: `complete` and `prefix`."""

import json
import zlib

from archive.files.catalog import Run
from archive.files.names import COMPLETE, Point
from archive.files.store import Missing, Store
from schema.errors import BadValue
from schema.json_values import number


def encode_complete(at: Point) -> bytes:
    """The content of the file `complete`."""
    return json.dumps(at._asdict()).encode()


def decode_complete(value: bytes) -> Point:
    """The reverse. Raises ValueError."""
    try:
        members = json.loads(value)
        return Point(*[number(members[name]) for name in Point._fields])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def encode_prefix(prefix: bytes) -> bytes:
    """The content of the file `prefix`."""
    return b"%b\n%08x" % (prefix, zlib.crc32(prefix))


def decode_prefix(value: bytes) -> bytes:
    """The reverse. Raises BadValue."""
    prefix, _, checksum = value.rpartition(b"\n")
    if checksum != b"%08x" % zlib.crc32(prefix):
        raise BadValue(f"the checksum of {value[:100]!r} is wrong")
    return prefix


def complete_up_to(store: Store, run: Run) -> Point:
    """Up to when the run is known to be complete. Raises StoreError."""
    try:
        return max(decode_complete(store.get(f"{run.name}/{COMPLETE}")), run.end)
    except (Missing, ValueError):
        return run.end
