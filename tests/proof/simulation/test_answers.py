"""What the judge of answers says of a server that etcd has deceived."""

from typing import Any, cast

import pytest

from codec.constants import Xid
from codec.packets import REPLY_HEADER
from proof.history import History, SetWatches
from proof.history.records import Expired, Lost
from proof.simulation.answers import Answers
from proof.simulation.clients import Client
from proof.simulation.world import Host, World
from proof.simulation.wrong_servers import WrongServers


def test_what_a_deceived_server_answers_to_setwatches_does_not_count() -> None:
    world, history, found = World(1), History(), list[str]()
    servers, nothing = WrongServers(world, found.append), cast(Any, None)
    answers = Answers(nothing, nothing, servers, 10.0, found.append)
    client = Client(world, Host(world, "clients"), "client1", [], history, 4000)
    client.on_reply = lambda *answered: answers.replied(client, *answered)
    servers.left_out("proxy1")
    answers.attached(client, 1, "proxy1")
    client._set_watches = (history.invoke(0, 1, SetWatches(5)), SetWatches(5))
    client._take(REPLY_HEADER.pack(Xid.SET_WATCHES, 7, 0))
    assert isinstance(history.records[-1], Lost)
    assert found == []


def test_a_deceived_server_that_says_that_a_session_is_over_does_not_count() -> None:
    history, servers = History(), WrongServers(World(1), pytest.fail)
    servers.left_out("proxy1")
    for number, server in enumerate(("proxy1", "proxy2")):
        history.expired(0, number)
        servers.expired(server, history)
    assert [record.session for record in history.records if isinstance(record, Expired)] == [1]
