"""Watch events for very many: what is the same for all of them is done once."""

from unittest import mock

import pytest

from codec.constants import EventType
from codec.jute import Acl
from codec.packets import encode_event
from proof.fuzzing.expensive import Lines
from proxy.state import notifications as module
from proxy.state.notifications import Notifications
from proxy.state.pause import NO_PAUSE
from proxy.state.rights import OPEN, Rights, permits, rights_of
from proxy.state.watches import TreeEvent, WatchTable
from schema.entry import Identity

CREATED, DELETED, CHANGED, CHILDREN = (
    int(EventType.NODE_CREATED),
    int(EventType.NODE_DELETED),
    int(EventType.NODE_DATA_CHANGED),
    int(EventType.NODE_CHILDREN_CHANGED),
)
SECRET = rights_of((Acl(1, "digest", "user:hash"),))
USER, STRANGER = (Identity("digest", "user:hash"),), (Identity("digest", "other:hash"),)


class Client:
    """A watcher that keeps the packets that it gets."""

    def __init__(self, identities: tuple[Identity, ...] = ()) -> None:
        self.session_id = 1
        self.identities = identities
        self.calls = 0
        self.packets: list[bytes] = []

    def notify(self, notifications: Notifications) -> None:
        self.calls += 1
        if notifications.are_for(self.identities):
            self.packets += notifications.packets(encode)


encode = mock.Mock(side_effect=encode_event)


def told(*events: tuple[int, str]) -> list[bytes]:
    return [encode_event(kind, 3, path, 7) for kind, path in events]


def changes(paths: list[str], rights: Rights = OPEN) -> list[TreeEvent]:
    return [TreeEvent(CHANGED, path, rights, OPEN) for path in paths]


def test_each_packet_is_made_once_and_a_client_is_called_once_for_many() -> None:
    table = WatchTable()
    clients = [Client() for _ in range(50)]
    for client in clients:
        table.add_lasting("/", client, recursive=True)
    paths = [f"/{number}" for number in range(1000)]
    encode.reset_mock()
    table.fire(changes(paths), 7)
    assert encode.call_count == len(paths)
    expected = told(*((CHANGED, path) for path in paths))
    for client in clients:
        assert client.packets == expected
        assert client.calls == 8
        assert client.packets[0] is clients[0].packets[0], "each client has a copy"


def test_each_list_of_identities_is_checked_once_however_the_watchers_alternate() -> None:
    table = WatchTable()
    users, strangers = [Client(USER) for _ in range(9)], [Client(STRANGER) for _ in range(9)]
    for client in users + strangers:
        table.add_lasting("/a", client, recursive=False)
    for client in (*users, Client(USER)):
        table.add_lasting("/b", client, recursive=False)
    with mock.patch.object(module, "permits", side_effect=permits) as checked:
        table.fire(changes(["/a", "/b"] * 100, SECRET), 7)
    assert checked.call_count == 2
    assert {client.calls for client in users} == {200}, "the watchers did not alternate"
    expected = told((CHANGED, "/a"), (CHANGED, "/b")) * 100
    assert all(client.packets == expected for client in users)
    assert not any(client.packets for client in strangers)


def test_events_of_other_rights_are_judged_by_them() -> None:
    """Both lists are cached, and neither verdict holds for the other node."""
    table = WatchTable()
    user, stranger = Client(USER), Client(STRANGER)
    for client in (user, stranger):
        table.add_lasting("/", client, recursive=True)
    theirs = rights_of((Acl(1, "digest", "other:hash"),))
    events = [*changes(["/a"], SECRET), *changes(["/b"], theirs), *changes(["/c"]), *changes(["/d"], SECRET)]
    table.fire(events, 7)
    assert user.packets == told((CHANGED, "/a"), (CHANGED, "/c"), (CHANGED, "/d"))
    assert stranger.packets == told((CHANGED, "/b"), (CHANGED, "/c"))


@pytest.mark.parametrize("kind", [CREATED, CHANGED])
@pytest.mark.parametrize("recursive", [True, False])
def test_watchers_that_may_not_read_cost_an_event_nothing(kind: int, recursive: bool) -> None:
    """Below two ACLs that alternate, each event cost 1.3 us for each of them."""
    theirs = rights_of((Acl(1, "digest", "third:hash"),))
    events = [
        TreeEvent(kind, f"/p/{number % 3}", *[(SECRET, theirs)[number % 2]] * 2) for number in range(600)
    ]
    lines = []
    for count in (10, 210):
        table = WatchTable()
        strangers = [Client((Identity("ip", "::1"),)) for _ in range(count)]
        for client in strangers:
            for path in ("/p",) if recursive else ("/p", "/p/0", "/p/1", "/p/2"):
                table.add_lasting(path, client, recursive=recursive)
        user = Client(USER)
        table.add_lasting("/", user, recursive=True)
        meter = Lines()
        with meter.running():
            table.fire(events, 7)
        lines.append(meter.count)
        assert user.packets == told(*[(kind, event.path) for event in events if event.rights is SECRET])
        assert not any(client.packets for client in strangers)
    assert lines[1] - lines[0] < 200 * 200


def test_who_may_read_is_forgotten_where_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 3)
    table = WatchTable()
    user, stranger = Client(USER), Client(STRANGER)
    for client in (user, stranger):
        table.add_lasting("/", client, recursive=True)
    table.fire(changes([f"/{number}" for number in range(20)], SECRET), 7)
    assert user.packets == told(*[(CHANGED, f"/{number}") for number in range(20)])
    assert not stranger.packets


def test_long_paths_are_not_kept_until_there_are_many() -> None:
    """They are made for all clients before the first one gets any."""
    table = WatchTable()
    client = Client()
    table.add_lasting("/", client, recursive=True)
    table.fire(changes(["/" + "x" * (32 << 10)] * 20), 7, NO_PAUSE)
    assert client.calls == 10
    assert len(client.packets) == 20
