"""What writes are refused for, and in which order: by the path alone, and then what each request adds.

`refusal` tries each alone and in a multi. test_machine_histories compares random requests with a model.
"""

from collections.abc import Callable

from codec.constants import ErrorCode
from lab.oracle.requests import (
    Check,
    CheckNotExists,
    CheckStat,
    Create,
    CreateContainer,
    CreateIfNotExists,
    Delete,
    DeleteContainer,
    Multi,
    RemoveRecursive,
    SetAcl,
    SetData,
    TryRemove,
)
from proof.naive import Answer, Asked, MultiAnswer
from tests.proxy.state.ops.room import BAD, CLOSED, READ_ONLY, do, refusal, room
from tests.table import one_by_one

_CODES = {
    "done": None,
    "args": ErrorCode.BAD_ARGUMENTS,
    "none": ErrorCode.NO_NODE,
    "auth": ErrorCode.NO_AUTH,
    "there": ErrorCode.NODE_EXISTS,
    "full": ErrorCode.NOT_EMPTY,
    "ver": ErrorCode.BAD_VERSION,
    "brief": ErrorCode.NO_CHILDREN_FOR_EPHEMERALS,
}
_REQUESTS: tuple[tuple[Callable[..., Asked], ...], ...] = (
    (Create, CreateContainer),
    (CreateIfNotExists,),
    (CheckNotExists,),
    (SetData, SetAcl, Check, CheckStat),
    (Delete,),
    (TryRemove,),
    (RemoveRecursive,),
    (DeleteContainer,),
)
# fmt: off
_BY_PATH = [
    # path                create ifnot  absent node   delete try    tree   container
    ("",                 "args   args   args   args   args   args   args   args"),
    ("nowhere",          "args   args   args   args   args   args   args   args"),
    ("/nul\0l",          "args   args   args   args   args   args   args   args"),
    ("/open/",           "args   args   args   args   none   done   none   none"),
    ("/open/.",          "args   args   args   args   none   done   none   none"),
    ("//",               "args   args   args   args   none   done   none   none"),
    ("//x",              "args   args   args   args   none   done   none   none"),
    ("/open/../x",       "none   none   args   args   none   done   done   none"),
    ("/",                "there  done   there  done   args   args   args   args"),
    ("/zookeeper",       "there  done   there  done   args   args   args   args"),
    ("/zookeeper/quota", "there  done   there  done   args   args   args   args"),
    ("/keeper",          "args   args   args   args   args   args   args   none"),
    ("/keeper/flag",     "args   args   args   args   args   args   args   none"),
    ("/keepers",         "done   done   done   none   none   done   none   none"),
    ("/missing/x",       "none   none   done   none   none   done   done   none"),
    ("/closed",          "there  done   there  auth   done   done   auth   done"),
    ("/closed/x",        "auth   auth   auth   none   auth   auth   auth   none"),
    ("/closed/.",        "auth   auth   args   args   auth   auth   auth   none"),
    ("/read-only/x",     "auth   auth   done   none   auth   auth   auth   none"),
    ("/brief",           "there  done   there  done   done   done   done   ver"),
    ("/brief/x",         "brief  brief  done   none   none   done   none   none"),
    ("/open",            "there  done   there  done   full   done   done   full"),
    ("/open/child",      "there  done   there  done   done   done   done   done"),
]
# fmt: on


@one_by_one(("path", "codes"), _BY_PATH)
def test_what_a_path_is_refused_for(path: str, codes: str) -> None:
    for requests, code in zip(_REQUESTS, codes.split(), strict=True):
        for request in requests:
            assert refusal(request(path)) == _CODES[code], request


@one_by_one(
    ("asked", "code"),
    [
        (Create("/brief/x", flags=1), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
        (CreateIfNotExists("/brief", flags=1), None),
        (CreateIfNotExists("/new", acls=BAD), ErrorCode.INVALID_ACL),
        (CreateIfNotExists("/new", flags=2), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("/open", flags=3), ErrorCode.BAD_ARGUMENTS),
        (CreateIfNotExists("/new", flags=9), ErrorCode.BAD_ARGUMENTS),
        (SetData("/read-only", b"", 7), ErrorCode.NO_AUTH),
        (SetAcl("/read-only", READ_ONLY, 7), ErrorCode.NO_AUTH),
        (Check("/read-only", 0), None),
        (Check("/closed", 7), ErrorCode.NO_AUTH),
        (CheckStat("/closed", 7), ErrorCode.NO_AUTH),
        (CheckNotExists("/open", 1), None),
        (CheckNotExists("/open", 0), ErrorCode.NODE_EXISTS),
        (TryRemove("/open/child", 1), None),
        (RemoveRecursive("/open", 2), None),
        (RemoveRecursive("/open", 1), ErrorCode.NOT_EMPTY),
        (RemoveRecursive("/brief", 0), ErrorCode.NOT_EMPTY),
    ],
)
def test_what_else_a_request_is_refused_for(asked: Asked, code: ErrorCode | None) -> None:
    assert refusal(asked) == code


def test_keepers_nodes_can_be_written_where_the_server_does_not_keep_them() -> None:
    for request in (Create, Delete, SetData, SetAcl, Check):
        assert refusal(request("/keeper/x"), keeper=False) == ErrorCode.NO_NODE
    assert refusal(Create("/keeper"), keeper=False) is None
    world = room(keeper=False)
    do(world, Create("/keeper"))
    world.rules = room().rules  # a tree with a node of that name keeps it
    do(world, Create("/keeper/x"), SetData("/keeper/x", b"data"))
    assert world.nodes["/keeper/x"].data == b"data"
    assert do(world, Delete("/keeper/y")) == [ErrorCode.NO_NODE]


def test_check_not_exists_sees_what_was_done_before_it() -> None:
    world = room()
    (answer,) = do(world, Multi((Create("/new", acls=CLOSED), CheckNotExists("/new"))))
    assert answer == ([], 1, ErrorCode.NODE_EXISTS)
    assert "/new" not in world.nodes
    # Nor is a parent asked that has gone in the same batch, or never came.
    never = Multi((Create("/new", acls=CLOSED), Delete("/missing")))
    answers = do(room(), Delete("/closed"), CheckNotExists("/closed/x"), never, CheckNotExists("/new/x"))
    assert answers == [Answer(), Answer(), MultiAnswer([], 1, ErrorCode.NO_NODE), Answer()]


def test_a_client_needs_for_delete_container_what_it_needs_for_delete() -> None:
    world = room()
    do(world, SetAcl("/open", READ_ONLY))
    assert do(world, DeleteContainer("/open/child"), Delete("/open/child")) == [ErrorCode.NO_AUTH] * 2
