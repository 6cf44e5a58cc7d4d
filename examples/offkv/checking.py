"""Runs the list on a server: each line with keys of its own and two sessions."""

from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import OpCode
from examples.offkv.conformance import LINES, Line, Stage
from examples.offkv.store import Store
from examples.tree import delete_tree
from lab.client.meter import Meter
from lab.client.session import Address, ConnectionLost, Session, ZooKeeperError, connect


class Verdict(NamedTuple):
    """How one line came out; `wrong` is empty if as it must."""

    line: Line
    wrong: str


async def check_line(address: Address, root: str, line: Line) -> Verdict:
    """One line, below `root`, with two sessions at one server: what one wrote the other reads at once."""
    meter = Meter()
    session = await connect([address], meter=meter)
    other = await connect([address])
    stores = Store(session, f"{root}/of/keys"), Store(other, f"{root}/of/keys")
    try:
        for store in stores:
            await store.make_prefix()
        meter.restart()

        async def reopen() -> Session:
            meter.stop()
            await stores[0].session.close()
            stores[0].session = await connect([address])
            return stores[0].session

        saw = await line.run(Stage(*stores, reopen))
        asked = {OpCode[name] for name in meter.requests}
    except (ZooKeeperError, ConnectionLost) as error:
        return Verdict(line, str(error))
    finally:
        await stores[0].session.close()
        await delete_tree(other, root)
        await other.close()
    if saw != line.expected:
        return Verdict(line, f"gives {saw!r}, must give {line.expected!r}")
    if asked != line.requests:
        return Verdict(line, f"asks {sorted(asked)}, must ask {sorted(line.requests)}")
    return Verdict(line, "")


async def check_all(addresses: Sequence[Address], root: str) -> list[Verdict]:
    """All lines in their order, in turn at each server. Raises ConnectionLost if one is not there."""
    for address in addresses:
        await (await connect([address], timeout_s=0.0)).close()
    return [
        await check_line(addresses[number % len(addresses)], root, line) for number, line in enumerate(LINES)
    ]


def requests_of(line: Line) -> str:
    """A line's requests, as the table has them."""
    return ", ".join(code.name for code in sorted(line.requests))
