"""getEphemerals: a session's own, by prefix."""

import pytest

from codec.jute import Reader, pack_string
from proxy.state.ops.get_ephemerals import get_ephemerals
from tests.proxy.state.naive import Create
from tests.proxy.state.ops.room import do, room
from tests.proxy.state.ops.test_reads import Client


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        *((everything, {"/brief", "/open/e"}) for everything in (None, "", "/", " / ", " \t\0\x1f ")),
        ("/o", {"/open/e"}),
        ("/open/e", {"/open/e"}),
        ("/open/e/", set()),
        (" /open", set()),
        ("\u00a0", set()),
        ("brief", set()),
    ],
)
def test_prefixes(prefix: str | None, found: set[str]) -> None:
    world = room()
    do(world, Create("/open/e", flags=1))
    do(world, Create("/open/other", flags=1), session=2)
    body = get_ephemerals(world.reading, Client(), b"head" + pack_string(prefix), 4)
    paths = Reader(body).strings()
    assert paths is not None
    assert set(paths) == found
    assert len(paths) == len(found)


def test_a_session_without_any() -> None:
    world = room()
    client = Client()
    client.session_id = 77
    body = get_ephemerals(world.reading, client, pack_string("/"), 0)
    assert Reader(body).strings() == []
