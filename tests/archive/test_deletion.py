"""Which deletes belong to the deletion of a node, from the changes below it."""

from collections.abc import Sequence

import pytest

from archive.past.deletion import Deletes, deletion_of
from archive.past.history import Event
from tests.table import one_by_one


def _event(zxid: int, word: str) -> Event:
    """Of a word such as `a-@5`: session `a` deletes a node at 5 s.

    `+`: it creates one, `*`: the node whose deletion is looked for; `!`: it ends.
    """
    session, what, seconds = word[0], word[1], word[3:]
    operation = {"-": "DELETE", "+": "CREATE", "*": "CREATE", "!": "CLOSE"}[what]
    change = "created" if operation == "CREATE" else "deleted"
    path = "/x/child" if what == "+" else "/x"
    unknown = (None,) * 5
    return Event(int(seconds) * 1000, zxid, zxid, path, change, operation, session, (), "p", *unknown, "")


def _text(deletes: Deletes) -> str:
    clients = "".join(sorted(session for session, _ in deletes.clients))
    return f"{deletes.nodes} by {clients} from {deletes.first.zxid}"


@one_by_one(
    ("words", "deletes", "earlier"),
    [
        (["a-@1", "a-@2", "a-@3"], "3 by a from 1", []),
        (["a+@1", "a-@2", "a-@62"], "2 by a from 2", []),
        (["a-@1", "a-@62", "a-@63"], "2 by a from 2", ["1 by a from 1"]),  # after a pause
        (["a-@1", "b-@2", "b-@3"], "3 by ab from 1", []),  # two clients in turn
        (["a-@1", "b-@2", "a-@3", "b-@4"], "4 by ab from 1", []),  # and at the same time
        (["a-@1", "b-@62", "b-@63"], "2 by b from 2", ["1 by a from 1"]),
        (["a-@1", "c+@2", "b-@3", "b-@4"], "2 by b from 3", ["1 by a from 1"]),  # another change between
        (["a-@1", "c+@2", "b-@70", "b-@71"], "2 by b from 3", []),
        (["a-@1", "a+@2", "b-@3", "b-@4"], "2 by b from 3", []),  # it has not only deleted
        (["a-@1", "c+@2", "a-@3", "b-@4"], "2 by ab from 3", ["2 by a from 1"]),
        (["b-@1", "c+@2", "a-@3", "b-@4"], "2 by b from 1", []),  # from before the change
        (["a-@1", "b!@2", "c-@3"], "2 by ac from 1", []),  # an ephemeral
        (["a-@1", "c*@2", "c+@3", "b-@4"], "1 by b from 4", []),  # below a former node
        (["a+@1", "a!@2"], "1 by a from 2", []),
    ],
)
def test_which_deletes_belong_together(words: Sequence[str], deletes: str, earlier: Sequence[str]) -> None:
    events = [_event(zxid, word) for zxid, word in enumerate(words, 1)]
    found = deletion_of(events, events[-1])
    assert (_text(found.deletes), [_text(each) for each in found.earlier]) == (deletes, earlier)


@pytest.mark.parametrize("more", [["a*"], ["a*", "a+", "a-"]])
def test_a_multi_that_creates_the_node_again_has_deleted_it(more: Sequence[str]) -> None:
    events = [_event(1, "a+@1"), _event(2, "a-@2"), _event(3, "a-@3")]
    rest = [_event(3, f"{word}@3") for word in more]
    assert deletion_of([*events, *rest], events[-1]) == deletion_of(events, events[-1])
