"""Entries in the log before their predecessor: when the lease ends, at a snapshot, when that is refused."""

import random
import time
from contextlib import ExitStack
from itertools import pairwise

import pytest

from lab.client import blocking as zk
from lab.client.blocking import BAD_ARGUMENTS, EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import ctl, end_lease_of, keys_of
from tests.faults.agreement import assert_same, incarnations
from tests.faults.conftest import Start
from tests.faults.gateway import Append, Fate, Gateway
from tests.faults.writers import Writers

_LOG = "/zketcd/live/log/"
_ROUNDS = 8


class HoldOne:
    """Holds back one append of an incarnation, whenever it is sent; the next ones pass."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self.number = 0

    def __call__(self, append: Append) -> Fate:
        """What becomes of an append."""
        if append.incarnation != self._incarnation:
            return Fate.PASS
        self.number = self.number or append.number
        return Fate.HOLD if append.number == self.number else Fate.PASS


def numbers_of(etcd: EtcdServer, incarnation: str) -> list[int]:
    """The numbers of an incarnation's entries, from etcd itself."""
    return [int(key[-16:]) for key in keys_of(etcd, f"{_LOG}{incarnation}/")]


def wait_for_gap(etcd: EtcdServer, incarnation: str, pusher: Client | None = None) -> int:
    """Wait until entries are in the log whose predecessor is not; returns the last number before the gap.

    `pusher` sends requests meanwhile, where it may be that nobody else does.
    """

    def gap() -> int | None:
        if pusher is not None:
            pusher.send(zk.SYNC)
        return next((one for one, next_ in pairwise(numbers_of(etcd, incarnation)) if next_ != one + 1), None)

    return wait_until(gap, "a gap in the numbers") or 0


def test_leases_that_end_with_a_gap_at_random_moments(
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway
) -> None:
    """Every request of the writers is done exactly once, and each writer's in its order."""
    etcd = own_etcd_server
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    other = start(etcd)
    proxy = start(gateway.endpoint)
    gaps: list[tuple[str, int]] = []
    with Writers(proxy.port, other.port, count=4) as writers, Client(proxy.port) as pusher:
        for _ in range(_ROUNDS):
            writers.progress(1)
            name = incarnations(etcd)[-1]
            hold = HoldOne(name)
            gateway.decide(hold)
            before = wait_for_gap(etcd, name, pusher)
            assert before == hold.number - 1
            # Within and beyond the second after which the same is sent again.
            time.sleep(chance.choice((0, chance.uniform(0, 0.1), chance.uniform(0, 0.1), 1.1)))
            if chance.randrange(3) == 0:
                gateway.release()  # it may be put before the lease ends
            else:
                gaps.append((name, before))
            end_lease_of(etcd, f"/zketcd/live/proxy/{name}")
            wait_until(lambda name=name: name not in incarnations(etcd), "the end of it")  # type: ignore[misc]
            gateway.release()
            writers.progress(1)
        writers.verify()
    assert proxy.log_text().count("carrying sessions over") == _ROUNDS
    for name, before in gaps:
        numbers = numbers_of(etcd, name)
        assert before + 1 not in numbers, f"seed {seed}: refused, since the proxy's key was gone"
        assert before + 2 in numbers
    with ExitStack() as stack:
        ports = (proxy.port, other.port, start(etcd).port)
        assert_same(*(stack.enter_context(Client(port)) for port in ports))


@pytest.mark.parametrize("comes", [True, False], ids=["predecessor-comes", "lease-ends"])
def test_a_snapshot_while_an_entry_waits_for_its_predecessor(
    start: Start, own_etcd_server: EtcdServer, gateway: Gateway, comes: bool
) -> None:
    """Who starts from it, before or after the gap is closed, is where those are who ran all the time."""
    etcd = own_etcd_server
    with ExitStack() as stack:
        other = start(etcd)
        proxy = start(gateway.endpoint)
        name = incarnations(etcd)[-1]
        witness = stack.enter_context(Client(other.port))
        clients = [stack.enter_context(Client(proxy.port)) for _ in range(3)]
        witness.create("/queue")
        for client in clients:
            client.sync()
        gateway.decide(HoldOne(name))
        sent = [clients[0].send(zk.create("/queue/n-", b"0", SEQUENTIAL))]
        gateway.await_held()
        for number in (1, 2):
            sent.append(clients[number].send(zk.create("/queue/n-", b"%d" % number, SEQUENTIAL)))
            wait_for_gap(etcd, name)
        waiting = set(keys_of(etcd, f"{_LOG}{name}/"))
        early = []
        for count in range(2):
            witness.create("/queue/x-", b"x", SEQUENTIAL)
            ctl(etcd, "snapshot")
            assert len(witness.children("/queue")[0]) == count + 1, "nothing that waits is done"
            early.append(stack.enter_context(Client(start(etcd).port)))
            assert early[count].children("/queue") == witness.children("/queue")
        last = max(waiting)
        assert last in keys_of(etcd, f"{_LOG}{name}/"), "truncation leaves what waits"
        if not comes:
            end_lease_of(etcd, f"/zketcd/live/proxy/{name}")
            wait_until(lambda: "carrying sessions over" in proxy.log_text(), "another incarnation")
        gateway.release()
        names = [client.result(xid) for client, (xid,) in zip(clients, sent, strict=True)]
        assert names == [f"/queue/n-{number:010d}" for number in (2, 3, 4)], "in the order of their numbers"
        for number, path in enumerate(names):
            assert clients[number].read(path)[0] == b"%d" % number
        ctl(etcd, "snapshot")
        late = stack.enter_context(Client(start(etcd).port))
        assert assert_same(witness, *clients, *early, late) == 4 + 1 + 5
        for client in (witness, *clients, *early, late):
            client.close()


def test_a_number_refused_as_too_large_with_the_next_in_the_log(start: Start) -> None:
    """By an etcd with a lower limit than its default."""
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer("--max-request-bytes=65536"))
        gateway = stack.enter_context(Gateway(etcd))
        other, proxy = start(etcd), start(gateway.endpoint)
        name = incarnations(etcd)[-1]
        large, small, same = (stack.enter_context(Client(proxy.port)) for _ in range(3))
        witness = stack.enter_context(Client(other.port))
        large.create("/a")
        small.create("/b", b"", EPHEMERAL)
        gateway.decide(HoldOne(name))
        (refused,) = large.send(zk.set_data("/a", random.Random(1).randbytes(100_000)))
        gateway.await_held()
        # Later numbers, also of the same session, are in the log before it is refused.
        after = large.send(zk.create("/a/after"), zk.exists("/a"))
        (written,) = small.send(zk.set_data("/b", b"1"))
        wait_for_gap(etcd, name)
        (last,) = same.send(zk.create("/n-", b"", SEQUENTIAL))
        gateway.release()
        assert large.reply_to(refused).err == BAD_ARGUMENTS
        assert large.result(after[0]) == "/a/after"
        assert large.result(after[1]).version == 0
        assert small.result(written).version == 1
        assert same.result(last) == "/n-0000000002"
        numbers = numbers_of(etcd, name)
        assert numbers == list(range(1, len(numbers) + 1)), "every number is filled"
        assert large.write("/a", b"less").version == 1
        late = stack.enter_context(Client(start(etcd).port))
        assert_same(witness, large, small, same, late)


def test_requests_that_are_too_large_only_together(start: Start) -> None:
    """Each request counts once and in its order, but for one that is too large by itself."""
    noise = random.Random(1).randbytes
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer("--max-request-bytes=65536"))
        other, proxy = start(etcd), start(etcd)
        first, second = (stack.enter_context(Client(proxy.port)) for _ in range(2))
        witness = stack.enter_context(Client(other.port))
        first.create("/a")
        second.create("/b")
        sent = []
        for number in range(24):
            client, path = ((first, "/a"), (second, "/b"))[number % 2]
            data = noise(100_000 if number == 9 else 40_000)
            sent.append((client, client.send(zk.set_data(path, data), zk.create(f"{path}/{number}"))))
        versions = {first: 0, second: 0}
        for number, (client, (write, small)) in enumerate(sent):
            if number == 9:
                assert client.reply_to(write).err == BAD_ARGUMENTS
            else:
                versions[client] += 1
                assert client.result(write).version == versions[client]
            assert client.reply_to(small).err == 0
        assert "carrying sessions over" in proxy.log_text(), "the entry was refused"
        witness.sync()
        assert len(witness.children("/a")[0]) == len(witness.children("/b")[0]) == 12
        assert_same(witness, first, second)
