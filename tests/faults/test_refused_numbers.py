"""A number of the log that etcd refuses as too large, by itself or together with others."""

import random
from contextlib import ExitStack
from itertools import pairwise

from lab.client import blocking as zk
from lab.client.blocking import BAD_ARGUMENTS, EPHEMERAL, SEQUENTIAL, Client
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import keys_of
from tests.faults.agreement import assert_same, incarnations
from tests.faults.conftest import Start
from tests.faults.gateway import Append, Fate, Gateway

_LOG = "/zketcd/live/log/"


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


def wait_for_gap(etcd: EtcdServer, incarnation: str) -> None:
    """Wait until entries are in the log whose predecessor is not."""
    wait_until(
        lambda: any(next_ != one + 1 for one, next_ in pairwise(numbers_of(etcd, incarnation))),
        "a gap in the numbers",
    )


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
