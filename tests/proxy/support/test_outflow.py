"""What is to be encrypted is, a little in each turn, in order, and all in the end."""

import asyncio
from collections import Counter

from proxy.support.outflow import Outflow
from tests.proxy.log.proxies import until


class _Giver:
    def __init__(self, size: int) -> None:
        self.size = size
        self.is_full = False

    @property
    def waits(self) -> bool:
        return self.size > 0 and not self.is_full

    def give(self, most: int) -> int:
        size = min(most, self.size)
        self.size -= size
        return size


async def test_no_turn_encrypts_more_than_its_share() -> None:
    outflow = Outflow()
    large, full, lost = (_Giver(3 << 20) for _ in range(3))
    small = _Giver(1000)
    givers = [large, small, full, lost]
    full.is_full = True
    in_a_turn = Counter[int]()
    turn, size, answered = -1, sum(giver.size for giver in givers), 0

    def count() -> None:
        nonlocal turn, size, answered
        in_a_turn[turn] = size - sum(giver.size for giver in givers)
        size -= in_a_turn[turn]
        turn += 1
        answered = answered or (0 if small.size else turn)
        asyncio.get_running_loop().call_soon(count)

    count()
    for giver in givers:
        outflow.add(giver)
    outflow.remove(lost)
    await until(lambda: not large.size)
    assert max(in_a_turn.values()) == 256 << 10
    assert answered == 2, "one that has little to send waits for a turn, and no longer"
    assert (full.size, lost.size) == (3 << 20, 3 << 20)
    full.is_full = False
    outflow.add(full)
    await until(lambda: not full.size)
    assert max(in_a_turn.values()) == 256 << 10


async def test_what_fits_into_a_turn_is_encrypted_at_once() -> None:
    outflow = Outflow()
    givers = [_Giver(60 << 10) for _ in range(4)]
    for giver in givers:
        outflow.add(giver)
    assert not any(giver.size for giver in givers)
