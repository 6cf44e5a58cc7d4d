"""Reads under ACLs are judged by the naive ZooKeeper, at the zxids of their answers."""

from collections.abc import Sequence

import pytest

from codec.constants import ErrorCode, OpCode
from codec.jute import OPEN_TO_ALL, Acl, pack_acls, pack_buffer, pack_strings
from codec.packets import STAT
from proof import naive
from proof.history import Reply
from proof.simulation.looks import Looks
from proof.simulation.naive_judge import naive_tree
from proof.simulation.packets import Look
from proof.simulation.simulation import Simulation

_NO_AUTH = int(ErrorCode.NO_AUTH)
_ANN, _BOB = ("digest", "ann:hash"), ("digest", "bob:hash")
_ACL = (Acl(31, *_ANN), Acl(1, *_BOB))


class _Tree:
    """A naive ZooKeeper with /a, whose ACL changes at zxid 3, and what is wrong with answers."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.looks = Looks(["/a"], self.wrong.append)
        self.model = naive_tree()
        self.model.open("proxy", 1)
        self.stats: dict[int, naive.Stat] = {}
        for asked in (naive.Create("/a", b"data"), naive.SetAcl("/a", _ACL), naive.Create("/a/b")):
            self.model.identities = [_ANN]
            self.model.ask("proxy", 1, asked, 7)
            self.looks.note(self.model)
            self.stats[self.model.zxid] = self.model.stat("/a")

    def is_right(self, opcode: int, answer: Reply, *identities: tuple[str, str]) -> bool:
        self.wrong.clear()
        self.looks.judge(Look(opcode, "/a", identities), answer)
        return not self.wrong

    def data(self, zxid: int) -> Reply:
        return Reply(0, zxid, data=pack_buffer(b"data") + STAT.pack(*self.stats[zxid]))

    def acl(self, acl: Sequence[Acl], zxid: int) -> Reply:
        return Reply(0, zxid, data=pack_acls(acl) + STAT.pack(*self.stats[zxid]))


def test_an_answer_is_judged_at_its_zxid() -> None:
    tree = _Tree()
    assert tree.is_right(OpCode.GET_DATA, Reply(int(ErrorCode.NO_NODE), 1))
    assert tree.is_right(OpCode.GET_DATA, tree.data(2))
    assert not tree.is_right(OpCode.GET_DATA, tree.data(3))
    assert tree.is_right(OpCode.GET_DATA, tree.data(3), _BOB)
    assert tree.is_right(OpCode.GET_DATA, Reply(_NO_AUTH, 3))
    assert not tree.is_right(OpCode.GET_DATA, Reply(_NO_AUTH, 2))
    assert not tree.is_right(OpCode.GET_DATA, Reply(_NO_AUTH, 3), _BOB)
    assert not tree.is_right(OpCode.GET_DATA, tree.data(4)._replace(zxid=3), _BOB)  # another Stat
    assert (tree.looks.judged, tree.looks.refused) == (8, 3)


def test_children_need_permission_too() -> None:
    tree = _Tree()
    listed = Reply(0, 4, data=pack_strings(["b"]) + STAT.pack(*tree.stats[4]))
    assert tree.is_right(OpCode.GET_CHILDREN2, listed, _BOB)
    assert not tree.is_right(OpCode.GET_CHILDREN2, listed)
    assert not tree.is_right(OpCode.GET_CHILDREN2, listed._replace(zxid=3), _BOB)


@pytest.mark.parametrize("zxid", [3, 4])
def test_hashes_of_passwords_are_for_those_who_may_change_an_acl(zxid: int) -> None:
    tree = _Tree()
    masked = (Acl(31, "digest", "ann:x"), Acl(1, "digest", "bob:x"))
    assert tree.is_right(OpCode.GET_ACL, tree.acl(_ACL, zxid), _ANN)
    assert tree.is_right(OpCode.GET_ACL, tree.acl(masked, zxid), _BOB)
    assert not tree.is_right(OpCode.GET_ACL, tree.acl(_ACL, zxid), _BOB)
    assert not tree.is_right(OpCode.GET_ACL, tree.acl(masked, zxid))
    assert tree.is_right(OpCode.GET_ACL, tree.acl(OPEN_TO_ALL, 2))


def test_clients_of_a_storm_read_and_are_refused() -> None:
    world = Simulation(2, 0.03, ("hot restart", "kill a proxy"))
    outcome = world.run()
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert world.naive.looks.judged > world.naive.looks.refused > 0
