"""Our numbers against kazoo's, which others wrote down; names may be spelled differently where listed."""

import re

import pytest
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol import serialization
from kazoo.protocol.states import EVENT_TYPE_MAP
from kazoo.security import Permissions

from codec.constants import ErrorCode, EventType, OpCode, Perms

SPELLED_DIFFERENTLY = {
    ErrorCode.SYSTEM_ERROR: "SystemZookeeperError",
    ErrorCode.RECONFIG_IN_PROGRESS: "ReconfigInProcessError",
    ErrorCode.NOT_READ_ONLY: "NotReadOnlyCallError",
    ErrorCode.SESSION_CLOSED_REQUIRE_SASL_AUTH: "SessionClosedRequireSaslError",
}


def squeeze(name: str) -> str:
    """A name without what separates words and without the ending of errors."""
    return re.sub(r"_|error$", "", name.lower())


@pytest.mark.parametrize("number", sorted(EXCEPTIONS))
def test_error_codes(number: int) -> None:
    ours, theirs = ErrorCode(number), EXCEPTIONS[number].__name__
    assert theirs == SPELLED_DIFFERENTLY.get(ours) or squeeze(theirs) in (squeeze(ours.name), "rolledback")


OPCODES = (
    "Create Delete Exists GetData SetData GetACL SetACL GetChildren Sync Ping GetChildren2 "
    "Create2 Reconfig Auth SASL"
)


@pytest.mark.parametrize("name", OPCODES.split())
def test_opcodes(name: str) -> None:
    ours = {squeeze(code.name): code for code in OpCode}
    assert getattr(serialization, name).type == ours[squeeze(name)]


def test_opcodes_that_kazoo_names_otherwise() -> None:
    assert serialization.Close.type == OpCode.CLOSE_SESSION
    assert serialization.CheckVersion.type == OpCode.CHECK
    assert serialization.Transaction.type == OpCode.MULTI


def test_events_and_permissions() -> None:
    assert EVENT_TYPE_MAP.keys() == {number for number in EventType if number <= 4}
    assert Permissions.ALL == Perms.ALL
    bits = [Permissions.READ, Permissions.WRITE, Permissions.CREATE, Permissions.DELETE, Permissions.ADMIN]
    assert bits == [Perms.READ, Perms.WRITE, Perms.CREATE, Perms.DELETE, Perms.ADMIN]
