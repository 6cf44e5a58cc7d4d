"""The beginning of a long write: what is decoded of it, and how much."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codec import client as zk
from codec.client import Request
from codec.constants import CreateMode, KeeperOpCode
from codec.jute import Acl
from proxy.state.budgets import Budgets
from proxy.state.ops import EXTENDED
from proxy.state.ops.beginning import beginning
from proxy.state.pause import LENGTHS
from schema.budgets import Rule

_ACLS = st.integers(0, 20).map(lambda count: tuple([Acl(31, "ip", f"10.0.0.{n}") for n in range(count)]))
_PATHS = st.sampled_from(["/x", "/x/y", "/y", "/", "x", ""])
_MODES = st.sampled_from([0, 1, 2, 3, CreateMode.CONTAINER])
_WRITES = st.one_of(
    st.builds(zk.create, _PATHS, st.binary(max_size=3), _MODES, _ACLS),
    st.builds(zk.set_data, _PATHS, st.binary(max_size=3)),
    st.builds(zk.delete, _PATHS),
    st.builds(zk.check, _PATHS),
    st.builds(zk.create, _PATHS).map(lambda it: it._replace(opcode=KeeperOpCode.CREATE_IF_NOT_EXISTS)),
)
_LONG = tuple([Acl(31, "ip", "10.0.0.1")] * 1000)


def _decoded(request: Request[Any]) -> Any:
    operation = EXTENDED.writes[request.opcode]
    return operation.decode(request.body, 0)[0]


def _refused(opcode: int, fields: Any) -> str | None:
    budgets = Budgets()
    budgets.set(Rule("/x", 1, 0), "a", 1000)
    budgets.take({"/x": (2, 0)})
    return budgets.refuses("a", 1000, EXTENDED.writes[opcode].effect, fields)


@given(st.lists(_WRITES, max_size=6))
def test_of_a_multi_the_first_parts_are_decoded(parts: list[Request[Any]]) -> None:
    request = zk.multi(parts)
    found, whole = beginning(request.opcode, request.body), _decoded(request)
    long = [len(fields) > 3 and len(fields[2]) > 16 for _, fields in whole]
    known = long.index(True) if True in long else len(whole)
    assert [(kind.opcode, fields) for kind, fields in found[:known]] == [
        (kind.opcode, fields) for kind, fields in whole[:known]
    ]
    assert len(found) == known + any(long), "and the path of the first with a long ACL"
    refused = _refused(request.opcode, found)
    assert refused is None or refused == _refused(request.opcode, whole)
    assert any(long) or refused == _refused(request.opcode, whole)


def test_of_a_write_with_a_long_acl_the_path_is_known() -> None:
    for request in (zk.create("/x/y", b"data", 0, _LONG), zk.set_acl("/x/y", _LONG)):
        assert beginning(request.opcode, request.body)[:2] == ("/x/y", None)
        assert _refused(request.opcode, beginning(request.opcode, request.body)) == "/x"
    sequential = zk.create("/x", b"", CreateMode.PERSISTENT_SEQUENTIAL, _LONG)
    assert _refused(sequential.opcode, beginning(sequential.opcode, sequential.body)) is None


def test_what_is_not_whole_has_the_parts_before() -> None:
    request = zk.multi([zk.set_data("/x", b""), zk.set_data("/y", b"12345678")])
    for end in range(len(request.body)):
        found = beginning(request.opcode, request.body[:end])
        assert [fields[0] for _, fields in found] == ["/x", "/y"][: len(found)]
        assert (len(found) == 0) == (end < 23)


def test_only_parts_at_the_beginning_are_decoded() -> None:
    size = len(zk.multi([zk.check("/y")] * 2).body) - len(zk.multi([zk.check("/y")]).body)
    many = zk.multi([zk.check("/y")] * 20_000)
    assert len(beginning(many.opcode, many.body)) == -(-LENGTHS.decoded_at_once // size)
    large = zk.multi([zk.set_data("/y", bytes(100_000)), zk.set_data("/x", b"")])
    assert [fields[0] for _, fields in beginning(large.opcode, large.body)] == ["/y"]
