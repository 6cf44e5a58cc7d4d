"""Child processes of a proxy: modules of ours that end with it.

A child gets what it needs as one line of JSON on stdin (no secrets on a command line). Its stdin stays open
as long as the proxy lives: a child ends when it is closed.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from proxy.support.last_resort import take_charge
from proxy.support.logs import TEXT, configure, form_in_use
from proxy.support.spawn import Child, spawn

_NICE = 10
_OOM_SCORE = 500
_ROOT = str(Path(__file__).resolve().parents[2])

Result = TypeVar("Result")


async def start(module: str, job: dict[str, Any]) -> Child:
    """Start `python -m MODULE` with a job, its stdin and stdout as pipes. Raises OSError.

    Its log has the form and the level of this process.
    """
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        child = await spawn(
            # -P: the folder in which this process was started is no place to import from.
            [sys.executable, "-P", "-m", module],
            {**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            pipes=True,
        )
    except OSError as error:
        raise OSError(f"{sys.executable} cannot be started: {error}") from error
    assert child.stdin is not None
    level = logging.getLevelName(logging.getLogger().getEffectiveLevel())
    job = {**job, "log_format": form_in_use(), "log_level": level}
    child.stdin.write(json.dumps(job).encode() + b"\n")
    with suppress(ConnectionError):
        await child.stdin.drain()
    return child


async def end(child: Child, timeout: float = 0.0) -> None:
    """End a child: close its stdin, and kill it if it still runs after so many seconds."""
    if child.stdin is not None:
        child.stdin.close()
    if child.returncode is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), timeout)
    if child.returncode is None:
        child.kill()
        await child.wait()
    child.close()


def begin(name: str) -> dict[str, Any]:
    """In a child: its job. The bytes after it remain unread. `name`: of the child, in messages.

    The child may have a whole tree in memory: if there is none left, the kernel ends it, and not the proxy.
    Raises ValueError.
    """
    os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    line = b""
    while not line.endswith(b"\n") and (more := os.read(sys.stdin.fileno(), 1)):
        line += more
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"{line[:80]!r} is no job")
    configure(found.get("log_level", "INFO"), found.get("log_format", TEXT), name)
    logging.getLogger("hpack").setLevel(logging.INFO)
    return found


async def until_orphaned(work: Coroutine[Any, Any, Result]) -> Result | None:
    """In a child: do the work, but no longer than the proxy lives that holds the other end of stdin."""
    loop = asyncio.get_running_loop()
    take_charge(loop)
    orphaned = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), orphaned.set)
    run = loop.create_task(work)
    gone = loop.create_task(orphaned.wait())
    await asyncio.wait((run, gone), return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    loop.remove_reader(sys.stdin.fileno())
    if not run.done():
        run.cancel()
        await asyncio.wait((run,))
        return None
    return run.result()
