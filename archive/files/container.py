"""A snapshot in one file: a header, and the pages as they are in etcd, each with its own checksum. Pure."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from archive.files.names import Snapshot
from proxy.state import capture
from proxy.state.machine import Machine
from schema.errors import BadValue
from schema.json_values import number, pack_json, text, unpack_json

_SIZE = Struct(">I")
_WHAT = "a snapshot"


class Pages(NamedTuple):
    """The pages of a snapshot."""

    nodes: Sequence[bytes]
    sessions: Sequence[bytes]
    state: bytes
    digest: int


def encode(pages: Pages) -> bytes:
    """The file."""
    everything = [pages.state, *pages.sessions, *pages.nodes]
    header = pack_json(
        {
            "digest": f"{pages.digest:016x}",
            "session_pages": len(pages.sessions),
            "sizes": [len(page) for page in everything],
        }
    )
    return b"".join([_SIZE.pack(len(header)), header, *everything])


def decode(value: bytes) -> Pages:
    """The reverse. Raises BadValue."""
    start = _SIZE.size
    if len(value) < start:
        raise BadValue(f"{_WHAT} of {len(value)} bytes is cut short")
    end = start + _SIZE.unpack_from(value)[0]
    members = unpack_json(value[start:end], f"the header of {_WHAT}")
    found = []
    try:
        sessions, digest = number(members["session_pages"]), int(text(members["digest"]), 16)
        for size in map(number, members["sizes"]):
            start, end = end, end + size
            found.append(value[start:end])
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"{_WHAT} has no proper {error}") from error
    if end != len(value) or not found:
        raise BadValue(f"{_WHAT} has {len(value)} bytes instead of {end}")
    return Pages(found[1 + sessions :], found[1 : 1 + sessions], found[0], digest)


def captured(machine: Machine) -> Pages:
    """The pages of a state."""
    made = capture.pages(machine)
    return Pages(list(made.node_pages), list(made.session_pages), made.state, made.digest)


def load(name: Snapshot, value: bytes) -> Machine:
    """The state, compared with its digest and with the file's name. Raises BadValue, UnknownLevel."""
    pages = decode(value)
    machine = capture.load(pages.nodes, pages.sessions, pages.state, pages.digest)
    if (machine.entries, machine.zxid) != (name.at.entries, name.at.zxid):
        raise BadValue(
            f"its name and its content are about other states: it has {machine.entries} entries and zxid"
            f" 0x{machine.zxid:x}"
        )
    return machine
