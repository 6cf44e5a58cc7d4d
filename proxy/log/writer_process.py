"""Runs the snapshot writer as a child process, so that its work does not delay this proxy's clients."""

import asyncio
import json
import logging
from asyncio.subprocess import Process
from typing import Any

from proxy.etcd.access import Access
from proxy.support.child import end, start
from proxy.support.logs import form_in_use

_LONGEST = 3600.0  # seconds that a child may take
_MODULE = "proxy.log.snapshot_writer"


class WriterProcess:
    """The snapshot writer, as `Snapshots` needs it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run it with an order; its result."""
        config = {
            **self._access.as_json(),
            "log_format": form_in_use(),
            "log_level": logging.getLevelName(logging.getLogger().getEffectiveLevel()),
            **order,
        }
        try:
            child = await start(_MODULE, config)
        except OSError as error:
            return {"ok": False, "error": str(error)}
        try:
            async with asyncio.timeout(_LONGEST):
                return await _result(child)
        except TimeoutError:
            return {"ok": False, "error": f"it took more than {_LONGEST:.0f} s"}
        finally:
            await end(child)


async def _result(child: Process) -> dict[str, Any]:
    assert child.stdout is not None
    said = await child.stdout.read()
    status = await child.wait()
    try:
        result: dict[str, Any] = json.loads(said)
    except ValueError:
        return {"ok": False, "error": f"the snapshot writer ended with status {status} and said nothing"}
    return result
