"""TLS handshakes: how many begin at once, and whose."""

import asyncio
from functools import partial

from proxy.support.handshakes import Handshakes


async def test_a_few_handshakes_begin_in_a_turn_of_the_loop_and_addresses_take_turns() -> None:
    loop = asyncio.get_running_loop()
    handshakes = Handshakes(loop)
    begun: list[str] = []
    turns: list[int] = []
    for number in range(5):
        handshakes.add("flood", partial(begun.append, f"flood{number}"))
    handshakes.add("other", partial(begun.append, "other"))
    while len(begun) < 6:
        await asyncio.sleep(0)
        turns.append(len(begun))
    assert begun == ["flood0", "other", "flood1", "flood2", "flood3", "flood4"]
    assert turns == [2, 3, 4, 5, 6]
    handshakes.add("other", partial(begun.append, "more"))
    await asyncio.sleep(0)
    assert begun[-1] == "more"
