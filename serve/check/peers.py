"""The ports at which proxies take entries of others: which proxy lacks one, and which cannot be reached."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from proxy.log.living import LivingProxy
from serve.check.finding import Finding, doubtful, good

_TIMEOUT = 2.0  # seconds, as a proxy waits
_NEAR = 0.005  # seconds


async def check_peers(living: Sequence[LivingProxy], distance: float) -> AsyncIterator[Finding]:
    """Findings about the living proxies, the eldest first.

    `distance`: seconds of a linearizable read, for which etcd's members ask each other.
    """
    lacking = [proxy for proxy in living if not proxy.value.peer_port.address]
    if len(lacking) == len(living):
        if len(living) > 1 and distance < _NEAR:
            yield good(
                "--peer-listen",
                f"none of the {len(living)} proxies has it: with it at all of them writes would take less"
                " CPU time",
            )
        return
    for proxy in lacking:
        yield doubtful("--peer-listen", f"proxy {proxy} lacks it: so each proxy appends its own entries")
    for proxy in living:
        if address := proxy.value.peer_port.address:
            why = await _why_not(address)
            if why:
                yield doubtful("--peer-listen", f"{address} of proxy {proxy} cannot be reached: {why}")
            else:
                yield good("--peer-listen", f"{address} of proxy {proxy} can be reached")
    if not lacking:
        yield good(
            "--peer-listen",
            f"proxy {living[0]}, the eldest, appends for those that reach it, while that is quicker",
        )


async def _why_not(address: str) -> str:
    """Why nothing accepts a connection there; "" if something does."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_TIMEOUT):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except TimeoutError:
        return f"no answer within {_TIMEOUT:g} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return ""
