"""The replies that the bench reads, as codec writes them."""

from bench import wire
from codec import packets
from codec.jute import pack_strings


def test_a_stat_comes_back_field_by_field() -> None:
    fields = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    found = wire.decode_stat(packets.STAT.pack(*fields))
    assert found == fields
    assert (found.version, found.cversion, found.num_children) == (5, 6, 10)


def test_names_of_children() -> None:
    assert wire.decode_names(pack_strings(["a", "", "node-0000000001"])) == [b"a", b"", b"node-0000000001"]
    assert wire.decode_names(pack_strings([])) == []


def test_reply_header() -> None:
    reply = packets.frame(7, 99, -101)
    assert len(reply) == wire.REPLY_SIZE
    assert wire.REPLY.unpack(reply) == (16, 7, 99, -101)


def test_a_new_session_is_asked_for_with_the_read_only_byte() -> None:
    found = packets.decode_connect(wire.connect_packet(30_000)[4:])
    assert (found.session_id, found.timeout_ms, found.last_zxid_seen) == (0, 30_000, 0)
    assert found.read_only is False
