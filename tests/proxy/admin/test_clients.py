"""What is reported of clients."""

from codec.constants import OpCode
from proxy.admin.clients import Clients, lop_name
from proxy.state.ops import EXTENDED
from proxy.state.pause import NO_PAUSE
from proxy.support.latency import ConnectionLatency, Latency
from tests.proxy.admin.subjects import Connection, Session, connected, subject_of


def _latency() -> ConnectionLatency:
    return ConnectionLatency(Latency(EXTENDED.updates))


def test_sessions_and_connections_are_listed_by_the_tick_after_they_are_due() -> None:
    first, second = Connection(_latency(), due=9.0), Connection(_latency(), due=1.0)
    sessions = [Session(1, 1000, 2.0), Session(2, 1900, 2.0), Session(3, 2000, 2.0)]
    clients = Clients(subject_of(sessions=sessions, connections=connected(first, second)))
    assert clients.session_expiry(NO_PAUSE) == {4000: [1, 2], 6000: [3]}
    found: list[tuple[int, object]] = list(clients.connection_expiry(NO_PAUSE).items())
    assert found == [(2000, [second.facts()]), (10000, [first.facts()])]


def test_a_connection_in_long_and_in_short() -> None:
    connection = Connection(_latency(), session_id=5, timeout_ms=4000, received=2, sent=1)
    connection.latency.note(OpCode.GET_DATA, 1, 7, 0x10, 0, 2_000_000)
    clients = Clients(subject_of(connections=connected(connection)))
    (brief,) = clients.connections(brief=True)
    (full,) = clients.connections(brief=False)
    assert brief.items() <= full.items()
    assert brief["remote_socket_address"] == "127.0.0.1:5000"
    assert (full["last_operation"], full["last_cxid"], full["last_zxid"]) == ("GETD", 7, 0x10)
    assert (full["session_timeout"], full["last_latency"]) == (4000, 2)


def test_operations_without_a_name_of_zookeepers() -> None:
    assert (lop_name(None), lop_name(500)) == ("NA", "500")
    assert lop_name(OpCode.MULTI) == "MULT"
