"""The fixed scripts on real ZooKeeper and zketcd, both with the same super user."""

import pytest

from lab.oracle.client import Client
from lab.oracle.requests import CreateContainer, Delete, DeleteContainer
from lab.oracle.wire import Closed, Reply
from tests.compat import watch_cases
from tests.compat.cases import CASES
from tests.compat.runner import demand_equal, is_3_9_6
from tests.compat.side import Server

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", CASES)
def test_no_difference(oracle: Server, subject: Server, name: str) -> None:
    demand_equal(CASES[name], oracle, subject)


def test_a_client_may_not_delete_a_container(oracle: Server, subject: Server) -> None:
    """From 3.9.6 on, ZooKeeper ends the connection. zketcd asks for the permission to delete."""
    with Client(oracle.ports[0]) as theirs, Client(subject.ports[0]) as ours:
        for client in (theirs, ours):
            client.ask_for_reply(CreateContainer("/container"))
        assert ours.ask_for_reply(DeleteContainer("/container")).err == 0
        found = theirs.ask(DeleteContainer("/container"))
    if is_3_9_6():
        assert found == Closed()
        with Client(oracle.ports[0]) as theirs:
            theirs.ask_for_reply(Delete("/container"))  # other tests compare the root's Stat
    else:
        assert isinstance(found, Reply)


@pytest.mark.parametrize("name", watch_cases.CASES)
def test_no_difference_over_two_proxies(pair_oracle: Server, pair: Server, name: str) -> None:
    demand_equal(CASES[name], pair_oracle, pair)
