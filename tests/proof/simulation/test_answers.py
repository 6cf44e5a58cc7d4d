"""What the judge of answers says: of the reserve's refusals, and of a server that etcd has deceived."""

from typing import Any, cast

import pytest

from codec.constants import CreateMode, OpCode, Xid
from codec.jute import OPEN_TO_ALL
from codec.packets import REPLY_HEADER
from proof.history import History, SetWatches
from proof.history.records import Expired, Lost
from proof.simulation.answers import Answers
from proof.simulation.clients import Client
from proof.simulation.world import Host, World
from proof.simulation.wrong_servers import WrongServers
from proxy.state.capture import new_machine


def test_a_session_that_gets_no_lock_from_the_reserve_is_a_violation() -> None:
    found: list[str] = []
    nothing: Any = None
    answers = Answers(nothing, nothing, nothing, 10.0, found.append)
    machine = new_machine(1)
    ephemeral, lasting = (
        ("/l/e", b"", OPEN_TO_ALL, mode) for mode in (CreateMode.EPHEMERAL, CreateMode.PERSISTENT)
    )
    machine.tree.ephemerals[2] = {"/l/a", "/l/b"}  # it has used a part of its share
    answers.refused(1, OpCode.CREATE, lasting, machine)
    answers.refused(2, OpCode.CREATE, ephemeral, machine)
    assert found == []
    answers.refused(1, OpCode.CREATE, ephemeral, machine)
    assert found == ["session 0x1 has one ephemeral node at most, and the reserve refuses it /l/e"]


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
