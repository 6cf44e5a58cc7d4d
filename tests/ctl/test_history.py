"""What `log` shows of each kind of request, and of what cannot be decoded."""

import pytest

from codec import client as zk
from codec.constants import OpCode
from ctl import history
from ctl.history import sizes, tail
from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Put, Txn
from proxy.log.living import LivingProxies, LivingProxy
from proxy.support.environment import clock_ms
from schema.budgets import encode_rule
from schema.entry import (
    Kind,
    Request,
    encode_carry_over,
    encode_close,
    encode_epoch,
    encode_forget,
    encode_level,
    encode_node_due,
    encode_terms,
)
from schema.followed import Followed, Lag, decode_lag, encode_followed, encode_lag
from schema.json_values import pack_json
from schema.record import PeerPort, ProxyValue, encode_record
from tests.proxy.log.proxies import PASSWORD
from tests.proxy.log.trees import Tree, asked
from tests.table import one_by_one


@one_by_one(
    ("request_", "line"),
    [
        (asked(1, zk.multi([zk.create("/m"), zk.check("/c")])), "0x1  MULTI [CREATE /m, CHECK /c]"),
        (asked(1, zk.sync("/s")), "0x1  SYNC /s"),
        (asked(-1, zk.close()), "0xffffffffffffffff  CLOSE_SESSION"),
        (Request(Kind.CLIENT, 1, 9999, (), b""), "0x1  9999"),
        (Request(Kind.CLIENT, 1, OpCode.DELETE, (), b"?"), "0x1  DELETE error="),
        (Request(Kind.ATTACH, 1, 0, (), encode_terms(5, PASSWORD)), "0x1  ATTACH timeout_ms=5"),
        (Request(Kind.CLOSE, 1, 0, (), encode_close("due", "a")), "0x1  CLOSE reason=due holder=a"),
        (Request(Kind.CARRY_OVER, 0, 0, (), encode_carry_over("x")), "0x0  CARRY_OVER old=x"),
        (
            Request(Kind.NODE_DUE, 0, 0, (), encode_node_due("/n", 1, 2, 3, 4)),
            "0x0  NODE_DUE path=/n version=1",
        ),
        (Request(Kind.EPOCH, 0, 0, (), encode_epoch(5, 6)), "0x0  EPOCH cluster_id=5 zxid_at_least=0x6"),
        (Request(Kind.LEVEL, 0, 0, (), encode_level(2)), "0x0  LEVEL level=2"),
        (Request(Kind.FORGET, 0, 0, (), encode_forget("x")), "0x0  FORGET incarnation=x"),
        (Request(Kind.FORGET, 0, 0, (), b"?"), "0x0  FORGET error="),
        (Request(Kind.BUDGET, 0, 0, (), encode_rule("/x", 5, 0)), "0x0  BUDGET path=/x writes=5 bytes=0"),
        (
            Request(
                Kind.FOLLOWED, 0, 0, (), encode_followed(Followed(3, 7, ["/a"], [], [], [], [], [], [9]))
            ),
            "0x0  FOLLOWED after=0x3 zxid=0x7 deleted=1 changed=0 opened=0 closed=1",
        ),
    ],
)
async def test_requests(request_: Request, line: str) -> None:
    tree = await Tree(FakeEtcdClient(FakeEtcd())).make()
    await tree.come("a")
    await tree.send("a", [request_])
    shown = await tail(tree.etcd, tree.keys, 1)
    assert len(shown.lines) == 2
    assert shown.lines[1].strip().startswith(line)
    assert shown.lines[0].endswith("1 request")


async def test_the_tail_goes_by_position_over_all_proxies() -> None:
    tree = await Tree(FakeEtcdClient(FakeEtcd())).make()
    await tree.come("a", "b")
    for number in range(3):
        await tree.create("a", f"/a{number}")
        await tree.create("b", f"/b{number}")
    rows = (await tail(tree.etcd, tree.keys, 3)).data
    assert [row["requests"][0]["path"] for row in rows] == ["/b1", "/a2", "/b2"]
    assert len((await tail(tree.etcd, tree.keys, 100)).data) == 8


async def test_sizes_show_leftovers() -> None:
    store = FakeEtcd()
    tree = await Tree(FakeEtcdClient(store)).make()
    await tree.come("a")
    for path in ("/1", "/2"):
        await tree.snapshot("a")
        await tree.create("a", path)
    name = "0000000000000001-x"
    store.txn(Txn((), (Put(tree.keys.node_page(name, 0), b""),)))
    data = (await sizes(tree.etcd, tree.keys)).data
    assert [each["is"] for each in data["snapshots"]] == [
        "unnamed: left over, or being written",
        "previous",
        "current",
    ]
    assert data["log"] == [{"proxy": "a", "entries": 2, "bytes": data["log"][0]["bytes"]}]
    assert data["since_snapshot"]["entries"] == 1


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        (("", ""), []),
        (("10.0.0.1:2191", ""), ["", "each proxy appends its own entries: b without --peer-listen"]),
        (
            ("10.0.0.1:2191", "10.0.0.2:2191"),
            ["", "a appends the entries of all proxies that reach 10.0.0.1:2191, while that is quicker"],
        ),
    ],
)
def test_which_proxy_appends_for_the_others(addresses: tuple[str, str], said: list[str]) -> None:
    living = LivingProxies()
    for age, (name, address) in enumerate(zip("ab", addresses, strict=True)):
        living.add(LivingProxy(name, age, ProxyValue((1,), "1", peer_port=PeerPort(address, b""))))
    living.add(LivingProxy("ctl.1", 7, ProxyValue((1,), "1", visits=True)))
    assert history._combined(living) == said


async def test_the_list_of_proxies_says_how_far_a_copy_is_behind() -> None:
    tree = await Tree().make("a")
    await tree.snapshot("a")
    tree.change(
        Put(tree.keys.tree, encode_record((await tree.record())._replace(complete=False))),
        Put(tree.keys.follows, b"{}"),
    )
    assert (await history.proxies(tree.etcd, tree.keys)).lines[-1].endswith(", and was not level yet")
    assert (await history.sizes(tree.etcd, tree.keys)).data["snapshots"]
    tree.change(Put(tree.keys.lag, encode_lag(Lag(clock_ms() - 3_600_000, 7, 0x500000123))))
    line = (await history.proxies(tree.etcd, tree.keys)).lines[-1]
    assert "the tree under /t follows another one: at zxid 0x500000123, 7 behind, level 36" in line
    before = pack_json({"level_ms": 1, "behind": 2})
    assert decode_lag(before) == Lag(1, 2), "a follower of before says no zxid"
