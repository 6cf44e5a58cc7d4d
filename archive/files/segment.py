"""The content of a segment: entries as they are in etcd, and what their requests have changed. Pure.

A wrapped value (schema.compression). Its head has the two points, and the digest of the state at the second
one. Columns instead of records, as in schema.entry.
"""

from collections.abc import Sequence
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from archive.files.names import Point, Segment
from schema.compression import unwrap, wrap
from schema.entry import Written
from schema.errors import BadValue
from schema.text import Fields, pack_texts, to_bytes, to_text

_FORMAT = 0x41  # "A"
_HEAD = Struct(">qqqqqqqqQ")
_COUNTS = Struct(">III")
_WHAT = "a segment"
NONE = -1


class Change(NamedTuple):
    """What a request has done to a node."""

    entry: int  # among those of the segment, from 0
    request: int  # of the entry, from 0
    kind: int  # CREATED, DELETED, DATA, ACL
    zxid: int
    path: str
    before: int  # version of the data, of the ACL for ACL; NONE: there was no node
    after: int  # NONE: there is no node any more
    size_before: int  # bytes of data; NONE: no data, or no node
    size_after: int


CREATED, DELETED, DATA, ACL = range(4)


class Content(NamedTuple):
    """A decoded segment."""

    start: Point
    end: Point
    digest: int  # of the state at `end`
    records: list[Written]
    #: The archive's, with each record: milliseconds since 1970. They never go back.
    clocks: list[int]
    changes: list[Change]


def encode(content: Content) -> bytes:
    """The file."""
    records, changes = content.records, content.changes
    names = {name: index for index, name in enumerate(dict.fromkeys(r.incarnation for r in records))}
    texts = pack_texts(list(names))
    parts = [
        _COUNTS.pack(len(records), len(changes), len(texts)),
        texts,
        _records(len(records)).pack(
            *(record.position for record in records),
            *(record.number for record in records),
            *(names[record.incarnation] for record in records),
            *(len(record.value) for record in records),
            *content.clocks,
        ),
    ]
    paths: list[bytes] = []
    if changes:
        entry, request, kind, zxid, texts_of_paths, *numbers = zip(*changes, strict=True)
        paths = [*map(to_bytes, texts_of_paths)]
        parts.append(
            _changes(len(changes)).pack(
                *zxid, *entry, *request, *chain.from_iterable(numbers), *map(len, paths), *kind
            )
        )
    parts += paths
    parts += [record.value for record in records]
    head = _HEAD.pack(*content.start, *content.end, content.digest)
    return wrap(_FORMAT, b"".join(parts), head)


def decode(value: bytes) -> Content:
    """The reverse. Raises BadValue."""
    head, body = unwrap(_FORMAT, value, _WHAT)
    fields = Fields(body, _WHAT)
    try:
        *points, digest = _HEAD.unpack(head)
        count, changed, size = fields.unpack(_COUNTS)
        texts = Fields(fields.raw(size), _WHAT)
        names = []
        while texts.remaining:
            names.append(texts.text())
        columns = fields.unpack(_records(count))
        positions, numbers, indexes, sizes, clocks = _split(columns, count, 5)
        of_changes = _split(fields.unpack(_changes(changed)), changed, 9)
        zxid, entry, request, before, after, size_before, size_after, lengths, kind = of_changes
        paths = [to_text(fields.raw(length)) for length in lengths]
        records = [
            Written(position, names[index], number, fields.raw(size))
            for position, number, index, size in zip(positions, numbers, indexes, sizes, strict=True)
        ]
        fields.end()
    except (IndexError, StructError) as error:
        raise BadValue(f"{_WHAT} does not have the layout that this release reads: {error}") from error
    if max(entry, default=-1) >= count or max(kind, default=CREATED) > ACL:
        raise BadValue(f"{_WHAT} has a change of an entry that it lacks, or of an unknown kind")
    changes = [
        Change(*row)
        for row in zip(entry, request, kind, zxid, paths, before, after, size_before, size_after, strict=True)
    ]
    return Content(Point(*points[:4]), Point(*points[4:]), digest, records, list(clocks), changes)


def load(name: Segment, value: bytes) -> Content:
    """The content of the file of this name. Raises BadValue, also for the content of another one."""
    content = decode(value)
    if (content.start.entries, content.end) != name:
        raise BadValue("its name and its content are about other entries")
    return content


def _records(count: int) -> Struct:
    """Of entries: positions, numbers, indexes of incarnations, sizes, clocks."""
    return Struct(f">{2 * count}q{2 * count}I{count}q")


def _changes(count: int) -> Struct:
    """Of changes: zxids, entries, requests, versions and sizes before and after, sizes of paths, kinds."""
    return Struct(f">{count}q{2 * count}I{4 * count}i{count}I{count}B")


def _split(values: Sequence[int], count: int, columns: int) -> list[Sequence[int]]:
    return [values[start * count : (start + 1) * count] for start in range(columns)]
