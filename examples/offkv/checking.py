"""Runs the list on a server: each line with keys of its own and two sessions."""

from collections.abc import Sequence
from typing import NamedTuple

from codec.constants import OpCode
from examples.offkv.conformance import LINES, AnyStore, Line, Stage
from examples.offkv.etcd_store import EtcdStore
from examples.offkv.store import ServiceError, Store
from lab.client.session import Address, ConnectionLost, ZooKeeperError, connect
from proxy.etcd.model import EtcdError

_SHORT_S = 2.0  # waited directly on etcd for an event that does not come


class Verdict(NamedTuple):
    """How one line came out; `wrong` is empty if as it must."""

    line: Line
    wrong: str
    differs: str = ""
    """What it gives directly on etcd, which keeps this promise in another way."""


async def _open(where: Address | str, prefix: str) -> AnyStore:
    """A client of the keys below a prefix: of a ZooKeeper server, or of the etcd with this URL."""
    return EtcdStore(where, prefix) if isinstance(where, str) else Store(await connect([where]), prefix)


async def check_line(where: Address | str, root: str, line: Line) -> Verdict:
    """One line, below `root`, with two sessions at one server: what one wrote the other reads at once."""
    store, other = [await _open(where, f"{root}/of/keys") for _ in range(2)]
    meter = None
    try:
        for each in (store, other):
            await each.make_prefix()
        if isinstance(store, Store):
            meter = store.session.meter
            meter.restart()
        saw = await line.run(Stage(store, other) if meter else Stage(store, other, _SHORT_S))
        asked = {OpCode[name] for name in meter.requests} if meter else line.requests
    except (ZooKeeperError, ConnectionLost, EtcdError, ServiceError) as error:
        return Verdict(line, str(error))
    finally:
        await store.close()
        await other.clear(root)
        await other.close()
    differs = meter is None and line.on_etcd is not None
    expected = line.on_etcd if differs else line.expected
    if saw != expected:
        return Verdict(line, f"gives {saw!r}, must give {expected!r}")
    if asked != line.requests:
        return Verdict(line, f"asks {sorted(asked)}, must ask {sorted(line.requests)}")
    return Verdict(line, "", f"gives {saw!r}" if differs else "")


async def check_all(addresses: Sequence[Address | str], root: str) -> list[Verdict]:
    """All lines in their order, in turn at each server. Raises ConnectionLost or EtcdError if one is away."""
    for address in addresses:
        if isinstance(address, str):
            await (store := EtcdStore(address, root)).clear(root)
            await store.close()
        else:
            await (await connect([address], timeout_s=0.0)).close()
    return [
        await check_line(addresses[number % len(addresses)], root, line) for number, line in enumerate(LINES)
    ]


def requests_of(line: Line) -> str:
    """A line's requests, as the table has them."""
    return ", ".join(code.name for code in sorted(line.requests))
