"""How many steps a read takes is known before: what would be refused as too long counts as long."""

import pytest

from codec.constants import KeeperOpCode, OpCode
from codec.jute import INT, LONG, OPEN_ACL, Acl, pack_acls, pack_string, pack_strings
from codec.packets import MULTI_HEADER
from lab.oracle.requests import body_of
from proof.fuzzing.expensive import ALL, LARGE, Lines, Sizes, Trait, World, request
from proxy.state.operation import Reading, Sees
from proxy.state.ops import EXTENDED, MULTI_READ, READS
from proxy.state.ops.keeper_lists import filtered_list
from proxy.state.ops.multi import END_OF_PARTS
from proxy.state.ops.reads import get_children, get_children2
from proxy.state.ops.steps import MANY, OfEntries, of_entries
from proxy.state.outcome import Refusal
from proxy.state.pause import AtOnce, TooLong
from proxy.state.rights import rights_of
from tests.proxy.state.test_pause import Counting
from tests.table import one_by_one

_EVERY = {f"ZooKeeper {opcode:d}": read for opcode, read in READS.items()} | {
    f"Keeper {opcode:d}": read for opcode, read in EXTENDED.reads.items()
}
_WATCHED = pack_strings([f"/wide/number/{number:010}" for number in range(3000)])


def _list(opcode: int) -> bytes:
    return MULTI_HEADER.pack(opcode, False, -1) + pack_string("/wide") + b"\0"


# The longest request on the state below, and a short one, of those that are not long by the path alone.
_ASKED: dict[int, tuple[bytes, bytes]] = {
    OpCode.GET_ACL: (pack_string("/acl/n0"), pack_string("/wide")),
    OpCode.GET_EPHEMERALS: (pack_string("/"), pack_string("/")),
    OpCode.SET_WATCHES: (LONG.pack(0) + _WATCHED + _WATCHED + _WATCHED, bytes(20)),
    OpCode.SET_WATCHES2: (LONG.pack(0) + _WATCHED + _WATCHED + _WATCHED + bytes(8), bytes(28)),
    OpCode.MULTI_READ: (_list(OpCode.GET_CHILDREN) * 3 + END_OF_PARTS, END_OF_PARTS),
}


@pytest.fixture(scope="module")
def world() -> World:
    """A wide node, one with much data below it, a long ACL, and a client with many ephemeral nodes."""
    world = World(Sizes(leaves=2000, traits=Trait.EPHEMERAL), LARGE._replace(meter=Lines))
    acl = (*(Acl(1, "digest", f"other{number}:hash") for number in range(3000)), *OPEN_ACL)
    for path in ("/wide", "/heavy", "/acl"):
        world.create(path)
    world.create("/acl/n0", rights=rights_of(acl))
    for number in range(17_000):
        world.create(f"/wide/n{number}")
    for number in range(5):
        world.create(f"/heavy/n{number}", bytes(1 << 20))
    world.machine.transaction.commit()
    return world


@one_by_one("name", [name for name, read in _EVERY.items() if read.steps])
def test_what_takes_long_is_known_before(name: str, world: World) -> None:
    operation = _EVERY[name]
    count = operation.steps
    assert count is not None
    opcode = int(name.split()[-1])
    reading = Reading(world.machine.tree, world.watches, {}, AtOnce())
    long, short = _ASKED.get(opcode) or [body_of(opcode, path=path) for path in ("/wide", "/wide/n1")]
    with pytest.raises(TooLong):
        operation.answer(reading, world.client, long, 0)
    assert count(reading, world.client, long, 0) > LARGE.lengths.at_once
    if opcode == OpCode.GET_EPHEMERALS:
        world.client.session_id += 9
    try:
        assert count(reading, world.client, short, 0) < 2
        operation.answer(reading, world.client, short, 0)
    except Refusal:
        pass
    finally:
        world.client.session_id %= 9


@pytest.mark.parametrize("with_data", [False, True])
def test_the_data_of_a_list_counts_if_it_is_wanted(with_data: bool, world: World) -> None:
    reading = Reading(world.machine.tree, world.watches, {}, AtOnce())
    opcode = KeeperOpCode.LIST_WITH_STAT_AND_DATA
    packet = body_of(opcode, path="/heavy", with_data=with_data)
    count = EXTENDED.reads[opcode].steps
    assert count is not None
    assert (count(reading, world.client, packet, 0) > LARGE.lengths.at_once) is with_data


@pytest.mark.parametrize("opcode", [opcode for opcode, read in EXTENDED.reads.items() if not read.steps])
def test_what_counts_no_steps_takes_few(opcode: int, world: World) -> None:
    """Whatever its path is: the wide node's, the root, ... It is neither weighed nor done in slices."""
    for kind in range(10):
        bill = world.bill(*request(iter((ALL.index(opcode), 0, 0, kind, 0, 0, 0)), world, LARGE))
        assert bill.opcode == opcode
        assert bill.total < 200, "lines of code"


def test_what_stands_in_a_path_is_no_part(world: World) -> None:
    """A search of the bytes for parts would decode as much for each part that a path pretends to have."""
    reading = Reading(world.machine.tree, world.watches, {}, AtOnce())
    path = _list(OpCode.GET_CHILDREN)
    get = MULTI_HEADER.pack(OpCode.GET_DATA, False, -1) + INT.pack(len(path)) + path + b"\0"
    assert MULTI_READ.steps(reading, world.client, get + END_OF_PARTS, 0) < 4


@pytest.mark.parametrize("count", [1000, 10_000])
def test_a_long_multi_read_is_not_looked_at(world: World, count: int) -> None:
    reading = Reading(world.machine.tree, world.watches, {}, AtOnce())
    packet = _list(OpCode.GET_CHILDREN) * count + END_OF_PARTS
    lines = Lines()
    with lines.running():
        assert MULTI_READ.steps(reading, world.client, packet, 0) == MANY
    assert lines.count < 400


def test_only_what_may_take_long_is_done_in_pieces_or_searches() -> None:
    strange = [read for read in _EVERY.values() if not read.alone and (read.sees is Sees.PIECES or read.cost)]
    assert strange == []
    # The identities of a client are bounded: one whoAmI is short, and very many of them are not.
    assert {read.word for read in _EVERY.values() if read.alone and not read.steps} == {"HOMI"}


def test_the_log_goes_on_behind_lists_of_names_alone() -> None:
    """Of any other read it would change what is still to be read."""
    seen = {read.answer for read in _EVERY.values() if read.sees is Sees.NAMES}
    assert seen == {get_children, get_children2, filtered_list}


def test_long_ids_of_an_acl_are_sent_with_pauses() -> None:
    """Else 500 of them, which no pause of entries is between, hold the loop."""
    pause = Counting(512)
    acl = tuple(Acl(perms, "digest", "u:" + "x" * 8000) for perms in range(500))
    assert pack_acls(acl, OfEntries(pause)) == pack_acls(acl)
    assert pause.calls > 50


def test_one_long_id_of_an_acl_takes_as_long_as_many_entries() -> None:
    assert of_entries(rights_of((Acl(31, "digest", "a:b"),))) == 1
    assert of_entries(rights_of((Acl(31, "digest", "\U0001f600" * 260_000),))) > LARGE.lengths.at_once
