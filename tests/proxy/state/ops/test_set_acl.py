"""setACL: what is refused, in which order."""

import pytest

from codec.constants import ErrorCode
from tests.proxy.state.naive import SetAcl, SetData
from tests.proxy.state.ops.room import BAD, OPEN, READ_ONLY, do, room


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (SetAcl("/open", OPEN, 0), None),
        (SetAcl("/open", OPEN, 1), ErrorCode.BAD_VERSION),
        (SetAcl("/missing", OPEN, 1), ErrorCode.NO_NODE),
        (SetAcl("/missing", BAD), ErrorCode.INVALID_ACL),
        (SetAcl("/open/", BAD), ErrorCode.BAD_ARGUMENTS),
        (SetAcl("/read-only", OPEN, 7), ErrorCode.NO_AUTH),
    ],
)
def test_what_is_refused(asked: SetAcl, code: ErrorCode | None) -> None:
    (answer,) = do(room(), asked)
    assert (answer if isinstance(answer, ErrorCode) else None) == code


def test_the_acl_has_a_version_of_its_own_and_moves_no_zxid() -> None:
    world = room()
    before = world.machine.tree.nodes["/open"].mzxid
    do(world, SetAcl("/open", READ_ONLY))
    node = world.machine.tree.nodes["/open"]
    assert (node.version, node.aversion, node.mzxid, node.acl) == (0, 1, before, READ_ONLY)
    assert do(world, SetData("/open")) == [ErrorCode.NO_AUTH]
