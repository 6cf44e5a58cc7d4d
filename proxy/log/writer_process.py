"""Runs the snapshot writer as a child process, so that its work does not delay this proxy's clients."""

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from proxy.etcd.transport import HTTP2
from proxy.support.logs import form_in_use

_LONGEST = 3600.0  # seconds that a child may take
_MODULE = "proxy.log.snapshot_writer"
_ROOT = str(Path(__file__).resolve().parents[2])


class Access(NamedTuple):
    """How the child reaches etcd."""

    etcd: tuple[str, ...]
    ca: str = ""
    cert: str = ""
    key: str = ""
    user: str = ""
    password: str = ""
    transport: str = HTTP2


class WriterProcess:
    """The snapshot writer, as `Snapshots` needs it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run it with an order; its result."""
        config = {
            **self._access._asdict(),
            "log_format": form_in_use(),
            "log_level": logging.getLevelName(logging.getLogger().getEffectiveLevel()),
            **order,
        }
        paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                stdin=PIPE,
                stdout=PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            return {"ok": False, "error": f"{sys.executable} cannot be started: {error}"}
        try:
            async with asyncio.timeout(_LONGEST):
                return await _exchange(child, config)
        except TimeoutError:
            return {"ok": False, "error": f"it took more than {_LONGEST:.0f} s"}
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()


async def _exchange(child: Process, config: dict[str, Any]) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    # Its stdin stays open: the child ends when it is closed, that is, with this process.
    child.stdin.write(json.dumps(config).encode() + b"\n")
    with suppress(ConnectionError):
        await child.stdin.drain()
    said = await child.stdout.read()
    status = await child.wait()
    try:
        result: dict[str, Any] = json.loads(said)
    except ValueError:
        return {"ok": False, "error": f"the snapshot writer ended with status {status} and said nothing"}
    return result
