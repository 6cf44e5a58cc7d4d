"""A registry of the server's tasks, since the event loop keeps only weak references to them."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

log = logging.getLogger(__name__)


class Tasks:
    """Tasks of one owner; all end with `close`. One that fails is logged, never lost."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self,
        coroutine: Coroutine[Any, Any, Any],
        what: str,
        *,
        reported: tuple[type[Exception], ...] = (),
    ) -> asyncio.Task[Any]:
        """Run a coroutine as a task; `what` names it in the log if it fails.

        `reported`: failures that the caller awaits and reports in its own words. They are not logged here.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=what)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, reported))
        return task

    def _ended(self, reported: tuple[type[Exception], ...], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, reported):
            log.error("failed to %s", task.get_name(), exc_info=error)

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
