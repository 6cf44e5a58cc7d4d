"""What lies in etcd: envelopes, entries, snapshot pages, the JSON values, keys.

Inputs are what the checksums cover; the checksums are put on here, since otherwise no changed input would get
past them. The target `envelope` has them wrong.
"""

import zlib
from collections.abc import Callable, Sequence

from proof.fuzzing.target import Target, Wrong
from proof.fuzzing.targets.pieces import Pieces, fields_of, same
from schema import budgets, entry, followed, keys, pages, record
from schema.compression import COMPRESS_FROM, ENVELOPE_SIZE, unwrap, unwrap_head, wrap
from schema.errors import BadValue, ForeignKey


def envelope(data: bytes) -> None:
    """A format byte, then a value; with a first byte above 127 its checksum is made right."""
    pieces = Pieces(data)
    right = pieces.byte() > 127
    value = pieces.rest
    if right and len(value) >= ENVELOPE_SIZE:
        value = value[:1] + zlib.crc32(value[5:]).to_bytes(4, "big") + value[5:]
    format_byte = value[0] if value else 0
    # Its size before compression is bounded by MAX_BODY alone: 64 MiB would take most of the time.
    if int.from_bytes(value[10:14], "big") > 64 * COMPRESS_FROM:
        value = value[:10] + bytes(2) + value[12:]
        value = value[:1] + zlib.crc32(value[5:]).to_bytes(4, "big") + value[5:]
    head, body = unwrap(format_byte, value, "a value")
    same("the head alone", unwrap_head(format_byte, value, "a value"), head)
    same("wrapped again", unwrap(format_byte, wrap(format_byte, body, head), "a value"), (head, body))


def an_entry(data: bytes) -> None:
    """An entry's body: what it says, written again, is read the same."""
    found = entry.decode_entry(wrap(entry.FORMAT, data))
    writer = entry.EntryWriter()
    for request in found.requests:
        writer.add(*request)
    again = writer.finish(found.clock, found.rules, found.checkpoint, found.digest)
    if len(again) > writer.size:
        raise Wrong(f"an entry of {len(again)} bytes was said to have {writer.size} at most")
    same("read again", entry.decode_entry(again), found)


_BODIES: Sequence[tuple[Callable[[bytes], tuple[object, ...]], Callable[..., bytes]]] = (
    (entry.decode_terms, entry.encode_terms),
    (entry.decode_close, entry.encode_close),
    (entry.decode_carry_over, entry.encode_carry_over),
    (entry.decode_node_due, entry.encode_node_due),
    (entry.decode_epoch, entry.encode_epoch),
    (entry.decode_level, entry.encode_level),
    (entry.decode_forget, entry.encode_forget),
    (budgets.decode_rule, budgets.encode_rule),
)


def proxys_request(data: bytes) -> None:
    """Which kind, then the body of a request that proxies send themselves: one value, one form."""
    decode, encode = _BODIES[(data[0] if data else 0) % len(_BODIES)]
    same("written again", encode(*decode(data[1:])), data[1:])


def node_page(data: bytes) -> None:
    """A page's head, then its body: its znodes, written again, are read the same."""
    pieces = Pieces(data)
    head = pieces.piece()
    page = wrap(pages.NODES_FORMAT, pieces.rest, head)
    header = pages.page_header(page)
    nodes = pages.decode_nodes(page)
    same("znodes", len(nodes), header.count)
    again = pages.decode_nodes(pages.encode_nodes(nodes))
    same("paths", [path for path, _ in again], [path for path, _ in nodes])
    for (_, one), (_, other) in zip(again, nodes, strict=True):
        same("a znode", fields_of(one), fields_of(other))


def session_page(data: bytes) -> None:
    """A page of sessions."""
    found = pages.decode_sessions(wrap(pages.SESSIONS_FORMAT, data))
    same("read again", pages.decode_sessions(pages.encode_sessions(found)), found)


_JSON: Sequence[tuple[Callable[[bytes], object], Callable[..., bytes]]] = (
    (record.decode_record, record.encode_record),
    (record.decode_proxy, record.encode_proxy),
    (pages.decode_state, pages.encode_state),
)


def json_value(data: bytes) -> None:
    """Which value, then its JSON without the checksum, which is put on where there is a closing brace."""
    decode, encode = _JSON[(data[0] if data else 0) % len(_JSON)]
    value = data[1:]
    if value.endswith(b"}"):
        value = value[:-1] + b',"crc":"%08x"}' % zlib.crc32(value[:-1])
    found = decode(value)
    same("read again", decode(encode(found)), found)


def changes(data: bytes) -> None:
    """The changes of a followed ZooKeeper: what they say, written again, is read the same."""
    pieces = Pieces(data)
    head = pieces.raw(20)
    parts = [pieces.piece() for _ in range(7)]
    body = head + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    found = followed.decode_followed(body)
    again = followed.decode_followed(followed.encode_followed(found))
    same("read again", _comparable(again), _comparable(found))
    same("how many", followed.counts_of(body).deleted, len(found.deleted))


def _comparable(found: followed.Followed) -> object:
    changed = [[(path, fields_of(node)) for path, node in some] for some in found.changed]
    return found._replace(nodes=(), data=(), acls=(), stats=()), changed


def key(data: bytes) -> None:
    """A key below the prefix: what it is parsed to makes the same key."""
    keyspace = keys.Keyspace("/zketcd")  # a new one: it remembers senders
    name = b"/zketcd/" + data
    found = keyspace.parse(name)
    if found.kind is keys.KeyKind.ENTRY:
        same("made again", keyspace.entry(found.incarnation, found.number), name)
    elif found.kind is keys.KeyKind.PROXY:
        same("made again", keyspace.proxy(found.incarnation), name)
    same("parsed again", keyspace.parse(name), found)


STORAGE = (
    Target("envelope", "Whether to mend the checksum, then a value.", envelope, (BadValue,)),
    Target("entry", "An entry's body, uncompressed.", an_entry, (BadValue,)),
    Target("proxys-request", "Which kind, then a body.", proxys_request, (BadValue,)),
    Target("node-page", "A page's head as a piece, then its body.", node_page, (BadValue,)),
    Target("session-page", "A page's body.", session_page, (BadValue,)),
    Target("json", "Which value, then JSON without its checksum.", json_value, (BadValue,)),
    Target("followed", "A head, then seven pieces.", changes, (BadValue,)),
    Target("key", "What follows the prefix.", key, (ForeignKey,)),
)
