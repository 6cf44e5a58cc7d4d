"""What a table shows to whom: as much as ZooKeeper shows to a client with the same identities."""

import csv
import io
from typing import Any

import pytest

from archive.past import rows
from codec.jute import Acl
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identities, Identity
from proxy.state.auth.schemes import named
from proxy.state.capture import new_machine
from proxy.state.machine import Machine
from proxy.state.node import make_node

AMY = digest_identity(b"amy:secret")
STRANGER: Identities = (Identity("ip", "10.0.0.9"),)
HERS = (Acl(31, "digest", AMY.id),)
SEEN_BY_ALL = (*HERS, Acl(1, "world", "anyone"))


@pytest.fixture
def machine() -> Machine:
    """`/hers`, which a stranger may not read, and `/seen`, whose ACL has a password as well."""
    machine = new_machine(1)
    for path, acl in (("/hers", HERS), ("/hers/below", SEEN_BY_ALL), ("/seen", SEEN_BY_ALL)):
        machine.tree.attach(path, make_node(b"data", acl, *[0] * 9))
    return machine


def _rows(machine: Machine, identities: Identities) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in rows.tree(machine, "/", identities)}


def test_password_hashes_are_for_those_who_may_set_the_acl(machine: Machine) -> None:
    assert _rows(machine, STRANGER)["/seen"]["acl"] == ["digest:amy:x:rwcda", "world:anyone:r"]
    assert _rows(machine, (AMY,))["/seen"]["acl"] == [f"digest:{AMY.id}:rwcda", "world:anyone:r"]


def test_of_a_znode_that_may_not_be_read_a_row_has_the_path_alone(machine: Machine) -> None:
    found = _rows(machine, STRANGER)
    assert "/hers/below" not in found
    hers = found["/hers"]
    assert (hers["path"], hers["readable"]) == ("/hers", False)
    assert {name for name, value in hers.items() if value is not None} == {"path", "readable"}
    assert list(hers) == [column.name for column in rows.TREE]
    assert _rows(machine, (AMY,))["/hers"]["data_length"] == 4


def test_users_are_named_without_what_proves_them() -> None:
    identities = (AMY, *STRANGER, Identity("super", ""), Identity("sasl", "bob"), Identity("other", "secret"))
    assert [*map(named, identities)] == ["digest:amy", "ip:10.0.0.9", "super:", "sasl:bob", "other:"]


def test_the_history_is_of_znodes_that_may_be_read_now(machine: Machine) -> None:
    """Of one that is gone those above it decide."""
    paths = [
        "/hers",
        "/hers/below",
        "/hers/gone",
        "/hers/gone/too",
        "/seen",
        "/seen/gone",
        "/gone",
        "/gone/too",
    ]
    seen = ["/seen", "/seen/gone", "/gone", "/gone/too"]
    assert [path for path in paths if rows.may_see(machine, path, STRANGER)] == seen
    assert [path for path in paths if rows.may_see(machine, path, (AMY,))] == paths


def test_a_client_adds_no_row_to_a_table(machine: Machine) -> None:
    """Many readers of CSV end a row at a carriage return without quotes."""
    data = "x\r/hers"  # a comma would bring quotes
    machine.tree.attach("/ours", make_node(data.encode(), SEEN_BY_ALL, *[0] * 9))
    text = b"".join(rows.comma_separated(rows.tree(machine, "/", STRANGER), rows.TREE)).decode()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["path"] for row in found] == list(_rows(machine, STRANGER))
    assert [row["data"] for row in found if row["path"] == "/ours"] == [data]
    assert text.count("\r") == 1
